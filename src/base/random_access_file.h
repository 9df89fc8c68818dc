// A regular file that is read at any place, never mapped: a mapped file that another process cuts
// off ends this one by SIGBUS.
#ifndef ROPEWAY_BASE_RANDOM_ACCESS_FILE_H_
#define ROPEWAY_BASE_RANDOM_ACCESS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ropeway/status.h"

namespace ropeway::base {

// An open file; movable. Thread rule: const after Open; may be shared.
class RandomAccessFile {
 public:
  // kNotFound if it cannot be opened or is not a regular file, kDataLoss if it is empty.
  static StatusOr<RandomAccessFile> Open(const std::string& path);

  ~RandomAccessFile();
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&& other) noexcept;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return stamp_.bytes; }  // When it was opened.

  // Reads the bytes from `begin` on into all of `to`. kDataLoss if the file is shorter,
  // kUnavailable if the device fails. Allocates nothing where it succeeds.
  Status Read(uint64_t begin, std::span<std::byte> to) const;

  // kDataLoss if the file was changed since Open: what was read may be of two files.
  Status CheckUnchanged() const;

 private:
  // The state of a file that a write changes.
  struct Stamp {
    uint64_t bytes = 0;
    int64_t seconds = 0;  // Time of the last change.
    int64_t nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };

  RandomAccessFile() = default;
  StatusOr<Stamp> ReadStamp() const;

  std::string path_;
  int file_ = -1;  // An open descriptor.
  Stamp stamp_;    // At Open.
};

// All of a file. Errors as for Open and Read, and kDataLoss if it has more than `most` bytes.
StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t most);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_RANDOM_ACCESS_FILE_H_
