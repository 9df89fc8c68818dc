#include "base/system.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>

namespace ropeway::base {
std::optional<std::string> ReadFile(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) return std::nullopt;
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most) {
  const auto failed = [] {
    return Status(StatusCode::kUnavailable, std::generic_category().message(errno));
  };
  // Without O_NONBLOCK a pipe without a writer would block here already.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return failed();
  const std::shared_ptr<void> closer(nullptr, [fd](void*) { close(fd); });
  struct stat about {};
  if (fstat(fd, &about) != 0) return failed();
  if (!S_ISREG(about.st_mode)) return InvalidArgument("it is not a regular file", "");
  std::string text;
  std::array<char, 16384> part;
  while (text.size() <= most) {
    const ssize_t got = read(fd, part.data(), std::min(part.size(), most + 1 - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed();
    if (got == 0) break;
    text.append(part.data(), static_cast<size_t>(got));
  }
  return text;
}

std::error_code MakePrivateDirectory(const std::filesystem::path& path) {
  std::filesystem::path made;
  for (const std::filesystem::path& part : path) {
    made /= part;
    if (mkdir(made.c_str(), 0700) == 0) continue;
    const int why = errno;
    std::error_code ignored;
    if (!std::filesystem::is_directory(made, ignored)) return {why, std::generic_category()};
  }
  return {};
}

std::FILE* OpenPrivateFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  std::FILE* const file = fdopen(fd, "w");
  if (file != nullptr) return file;
  const int why = errno;
  close(fd);
  errno = why;
  return nullptr;
}

bool ReplaceFile(const std::string& path, std::string_view text) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return false;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  bool good = true;
  while (good && !text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    good = written > 0;
    if (good) text.remove_prefix(static_cast<size_t>(written));
  }
  return close(fd) == 0 && good;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t DescriptorLimit() {
  constexpr rlim_t kMany = 1 << 30;  // More than any system has; also for "unlimited".
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMany;
  return static_cast<int64_t>(std::min(limit.rlim_cur, kMany));
}

namespace fs = std::filesystem;

namespace {

bool IsOfFileSystem(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code unknown;
  const fs::file_status status = entry.symlink_status(unknown);
  if (name == "lost+found") return fs::is_directory(status);
  return name.starts_with(".nfs") && fs::is_regular_file(status);
}

}  // namespace

StatusOr<std::string> FindForeignEntry(
    const fs::path& directory, const std::function<bool(const fs::directory_entry&)>& is_own) {
  std::string first;
  std::error_code error;
  for (fs::directory_iterator i(directory, error), end; !error && i != end; i.increment(error)) {
    if (IsOfFileSystem(*i) || is_own(*i)) continue;
    const std::string name = i->path().filename().string();
    if (first.empty() || name < first) first = name;
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status(StatusCode::kUnavailable, "cannot be read: " + error.message());
  }
  return first;
}

bool IsRocksDbName(std::string_view name) {
  for (const std::string_view whole : {"CURRENT", "IDENTITY", "LOCK", "LOG"}) {
    if (name == whole) return true;
  }
  for (const std::string_view begin : {"MANIFEST-", "OPTIONS-", "LOG.old."}) {
    if (name.starts_with(begin)) return true;
  }
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view rest = name.substr(digits);
  return digits > 0 && (rest == ".sst" || rest == ".blob" || rest == ".log" || rest == ".dbtmp");
}

}  // namespace ropeway::base
