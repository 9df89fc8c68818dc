#include "base/random_access_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace ropeway::base {
namespace {

std::string WhyItFailed() { return std::generic_category().message(errno); }

}  // namespace

StatusOr<RandomAccessFile> RandomAccessFile::Open(const std::string& path) {
  RandomAccessFile file;
  file.path_ = path;
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  file.file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.file_ < 0) {
    return Status(StatusCode::kNotFound,
                  fmt::format("{}: cannot be opened: {}", path, WhyItFailed()));
  }
  struct stat info {};
  if (fstat(file.file_, &info) != 0) {
    return Status(StatusCode::kNotFound,
                  fmt::format("{}: cannot be read: {}", path, WhyItFailed()));
  }
  if (S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kNotFound, fmt::format("{}: is a directory, not a file", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::kNotFound, fmt::format("{}: is not a regular file", path));
  }
  if (info.st_size == 0) {
    return Status(StatusCode::kDataLoss, fmt::format("{}: the file is empty", path));
  }
  StatusOr<Stamp> stamp = file.ReadStamp();
  if (!stamp.ok()) return stamp.status();
  file.stamp_ = *stamp;
  return file;
}

RandomAccessFile::~RandomAccessFile() {
  if (file_ >= 0) close(file_);
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), stamp_(other.stamp_) {}

RandomAccessFile& RandomAccessFile::operator=(RandomAccessFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(stamp_, other.stamp_);
  return *this;
}

StatusOr<RandomAccessFile::Stamp> RandomAccessFile::ReadStamp() const {
  struct stat info {};
  if (fstat(file_, &info) != 0) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{}: cannot be read: {}", path_, WhyItFailed()));
  }
  return Stamp{static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

Status RandomAccessFile::CheckUnchanged() const {
  const StatusOr<Stamp> now = ReadStamp();
  if (!now.ok()) return now.status();
  if (*now == stamp_) return {};
  return {StatusCode::kDataLoss, fmt::format("{}: the file was changed while it was read", path_)};
}

Status RandomAccessFile::Read(uint64_t begin, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(file_, to.data(), to.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return {StatusCode::kUnavailable,
              fmt::format("{}: byte {} cannot be read: {}", path_, begin, WhyItFailed())};
    }
    if (got == 0) {
      return {
          StatusCode::kDataLoss,
          fmt::format(
              "{}: the file was changed while it was read: it had {} bytes and now ends at byte {}",
              path_, stamp_.bytes, begin)};
    }
    begin += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  return {};
}

StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t most) {
  const StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->bytes() > most) {
    return Status(StatusCode::kDataLoss, fmt::format("{}: has {} bytes, more than the limit of {}",
                                                     path, file->bytes(), most));
  }
  std::string text(static_cast<size_t>(file->bytes()), '\0');
  if (Status status = file->Read(0, std::as_writable_bytes(std::span(text))); !status.ok()) {
    return status;
  }
  return text;
}

}  // namespace ropeway::base
