#include "base/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "base/log.h"
#include "base/utf8.h"

namespace ropeway::base {
namespace {

constexpr char kLost[] = "the output could not be written";

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Its head and its end, where what was expected often stands.
std::string Bounded(std::string sentence) {
  constexpr size_t kHead = 3000;
  constexpr size_t kTail = 1000;
  if (sentence.size() > kHead + kTail) {
    sentence.replace(kHead, sentence.size() - kHead - kTail, " [...] ");
  }
  return sentence;
}

// What it quotes may be anything; line breaks are of lists.
std::string Shown(const std::string& sentence) {
  std::string shown;
  for (size_t at = 0, end = 0; at <= sentence.size(); at = end + 1) {
    end = std::min(sentence.find('\n', at), sentence.size());
    shown += (at > 0 ? "\n" : "") + PrintableText(sentence.substr(at, end - at));
  }
  return shown;
}

}  // namespace

void HoldStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one: those below it are open by now.
    open("/dev/null", O_RDONLY);
  }
}

int Fail(const std::string& sentence) {
  if (LogsAsJson()) {
    TryLog(spdlog::level::critical, "{}", Bounded(sentence));
    return 1;
  }
  Note(fmt::format("ropeway: {}\n", Shown(Bounded(sentence))));
  return 1;
}

int Fail(const Status& status) { return Fail(status.message()); }

void Note(std::string_view text) { WriteAll(STDERR_FILENO, text); }

bool Output::Write(std::string_view text) {
  if (!ok_) return false;
  ok_ = WriteAll(STDOUT_FILENO, text);
  if (!ok_) reader_gone_ = errno == EPIPE;
  return ok_;
}

int Output::End() const {
  if (ok_) return 0;
  return reader_gone_ ? 1 : Fail(kLost);
}

int EndStandardOutput() {
  std::cout.flush();
  if (std::cout.good()) return 0;
  // The stream does not keep the reason: a pipe without a reader says so itself.
  pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  const bool reader_gone = poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  return reader_gone ? 1 : Fail(kLost);
}

}  // namespace ropeway::base
