#include "bench/child_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "net/http_client.h"

namespace ropeway {
namespace {

constexpr double kStopPatience = 60;  // Seconds.
constexpr size_t kLastWords = 500;    // Bytes.

// In the new process: becomes the program, or ends.
[[noreturn]] void Become(const std::vector<std::string>& command, int log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

void Sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

}  // namespace

uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  const bool good = bind(fd, plain, length) == 0 && getsockname(fd, plain, &length) == 0;
  close(fd);
  return good ? ntohs(address.sin_port) : 0;
}

ChildServer::ChildServer(pid_t pid, uint16_t port, std::string log)
    : pid_(pid), url_{false, "127.0.0.1", port, "/v1"}, log_(std::move(log)) {}

StatusOr<std::unique_ptr<ChildServer>> ChildServer::Start(const std::vector<std::string>& command,
                                                          uint16_t port, double patience) {
  std::string log = (std::filesystem::temp_directory_path() / "ropeway-bench-XXXXXX").string();
  const int fd = mkostemp(log.data(), O_CLOEXEC);
  const pid_t pid = fd < 0 ? -1 : fork();
  if (pid == 0) Become(command, fd);
  if (fd >= 0) close(fd);
  if (pid < 0) return Status(StatusCode::kUnavailable, "no further process can be started");
  std::unique_ptr<ChildServer> child(new ChildServer(pid, port, log));
  BaseUrl root = child->url_;
  root.path.clear();
  const auto client = HttpClient::Open(root, "", /*insecure=*/false);
  if (!client.ok()) return client.status();
  const RealClock clock;
  const TimePoint begin = clock.Now();
  const std::string name = std::filesystem::path(command[0]).filename().string();
  while (true) {
    if (child->Ended()) {
      return Status(StatusCode::kUnavailable,
                    fmt::format("{} ended before it was ready: {}", name, child->LastWords()));
    }
    if ((*client)->Fetch("/health", "", 5).status == 200) return child;
    if (ToSeconds(clock.Now() - begin) > patience) {
      return Status(StatusCode::kUnavailable, fmt::format("{} was not ready after {:g} s: {}", name,
                                                          patience, child->LastWords()));
    }
    Sleep();
  }
}

ChildServer::~ChildServer() {
  Stop();
  std::error_code ignored;
  std::filesystem::remove(log_, ignored);
}

bool ChildServer::Ended() {
  if (pid_ != 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
  return pid_ == 0;
}

void ChildServer::Stop() {
  if (Ended()) return;
  kill(pid_, SIGTERM);
  const RealClock clock;
  const TimePoint begin = clock.Now();
  while (!Ended() && ToSeconds(clock.Now() - begin) < kStopPatience) Sleep();
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

double ChildServer::PeakMemoryMib() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  std::string word;
  while (status >> word) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return 0;
}

std::string ChildServer::LastWords() const {
  std::ifstream file(log_, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  while (text.ends_with('\n')) text.pop_back();
  return text.size() <= kLastWords ? text : "..." + text.substr(text.size() - kLastWords);
}

}  // namespace ropeway
