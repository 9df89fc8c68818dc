#include "hub/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/random_access_file.h"
#include "base/system.h"
#include "base/words.h"

namespace ropeway::hub {
namespace {

namespace fs = std::filesystem;

// No note is longer: URLs have at most 8 KiB or so.
constexpr size_t kMaxOriginNote = size_t{64} << 10;

Status PartError(const fs::path& path, const std::string& what) {
  return {StatusCode::kUnavailable, fmt::format("{}: {}", path.string(), what)};
}

Status PartSystemError(const fs::path& path, const std::string& what = "") {
  return PartError(path, what + std::generic_category().message(errno));
}

// Takes the first line off the text.
std::string_view TakeLine(std::string_view* text) {
  const std::string_view line = text->substr(0, text->find('\n'));
  text->remove_prefix(std::min(text->size(), line.size() + 1));
  return line;
}

}  // namespace

std::string_view PlaceOf(std::string_view url) { return url.substr(0, url.find_first_of("?#")); }

PartFile::PartFile(fs::path path, std::string url) : path_(std::move(path)), url_(std::move(url)) {}

PartFile::~PartFile() {
  if (file_ >= 0) close(file_);
}

Status PartFile::Open() {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  // Without O_NONBLOCK, opening a FIFO would wait for a reader.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  file_ = open(path_.c_str(), kFlags, 0644);
  if (file_ < 0) {
    const Status failed = PartSystemError(path_);
    const Status own = CheckOwnEntry(path_);
    return own.ok() ? failed : own;
  }
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    return PartError(path_, "another process is fetching it");
  }
  // It may have been renamed between the two calls.
  struct stat mine {};
  struct stat there {};
  if (fstat(file_, &mine) != 0 || lstat(path_.c_str(), &there) != 0 ||
      mine.st_ino != there.st_ino) {
    return PartError(path_, "another process has fetched it");
  }
  if (Status status = CheckOwnEntry(path_); !status.ok()) return status;
  bytes_ = static_cast<uint64_t>(mine.st_size);
  return Seek();
}

Status PartFile::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return PartSystemError(path_, "cannot be written: ");
    text.remove_prefix(static_cast<size_t>(written));
    bytes_ += static_cast<uint64_t>(written);
  }
  return {};
}

Status PartFile::Clear() {
  // First the note: it must not stand beside bytes of another file.
  if (unlink(NotePath().c_str()) != 0 && errno != ENOENT) {
    return PartSystemError(NotePath(), "cannot be removed: ");
  }
  if (ftruncate(file_, 0) != 0) return PartSystemError(path_, "cannot be emptied: ");
  bytes_ = 0;
  return Seek();
}

// Lines: the URL that was asked for, the length, the tag, the place. Notes of older versions have
// no place: there it is the URL's own.
Origin PartFile::ReadOrigin() const {
  const StatusOr<std::string> note = base::ReadWholeFile(NotePath(), kMaxOriginNote);
  if (!note.ok()) return {};
  std::string_view rest = *note;
  if (TakeLine(&rest) != url_) return {};
  const std::optional<uint64_t> total = base::ParseNumber<uint64_t>(TakeLine(&rest));
  if (!total) return {};
  const std::string_view tag = TakeLine(&rest);
  const std::string_view place = TakeLine(&rest);
  return {.tag = std::string(tag),
          .total = *total,
          .place = std::string(PlaceOf(place.empty() ? url_ : place))};
}

void PartFile::NoteOrigin(const Origin& origin) {
  base::ReplaceFile(NotePath(), fmt::format("{}\n{}\n{}\n{}\n", url_, origin.total, origin.tag,
                                            PlaceOf(origin.place)));
}

Status PartFile::MoveTo(const fs::path& to) {
  if (fsync(file_) != 0) return PartSystemError(path_, "cannot be written: ");
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  fs::rename(path_, to, error);
  if (error) return PartError(to, error.message());
  fs::remove(NotePath(), error);
  return SyncPath(to.parent_path());
}

void PartFile::Remove() {
  std::error_code error;
  fs::remove(path_, error);
  fs::remove(NotePath(), error);
}

Status PartFile::Seek() {
  if (lseek(file_, 0, SEEK_END) >= 0) return {};
  return PartSystemError(path_);
}

Status CheckOwnEntry(const fs::path& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return PartSystemError(path);
  const char* what = "is neither a file nor a folder";
  if (S_ISLNK(info.st_mode)) what = "is a symbolic link, which is not followed";
  if (S_ISDIR(info.st_mode)) return {};
  if (S_ISREG(info.st_mode)) {
    if (info.st_nlink <= 1) return {};
    what = "is hard-linked to another file, which would change too";
  }
  return PartError(path, fmt::format("{}: remove it", what));
}

Status SyncPath(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool good = file >= 0 && fsync(file) == 0;
  const int why = errno;
  if (file >= 0) close(file);
  errno = why;
  return good ? Status() : PartSystemError(path, "cannot be synced: ");
}

}  // namespace ropeway::hub
