// The disk tier's directory: who may use it, what it was made for, and what was under way when its
// last user was stopped.
//
//   LOCK                  held by the process that uses the directory
//   FORMAT                what the blocks in it are: format, bytes of a block, byte order
//   UNDER_WAY             what the process that uses it is doing; left behind by a kill alone
//   generation-00000001/  a RocksDB database (disk_generation.h); larger numbers are newer
//
// Other files in it are left alone.
#ifndef ROPEWAY_KVCACHE_DISK_DIRECTORY_H_
#define ROPEWAY_KVCACHE_DISK_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ropeway/status.h"

namespace rocksdb {
class Env;
class FileLock;
}  // namespace rocksdb

namespace ropeway {

// Thread rule: Mark from any thread, the rest from one.
class DiskDirectory {
 public:
  // What a process can be stopped in the middle of; the value is its place in UNDER_WAY, which has
  // its letter there while it lasts and '-' else.
  enum class Work { kWriting, kCompacting, kDropping };

  // Makes the directory where there is none, takes its lock, and empties it where what it holds was
  // made for other blocks. `env` must outlive it. Errors name kv_disk_path.
  static StatusOr<std::unique_ptr<DiskDirectory>> Open(const std::string& path, size_t block_bytes,
                                                       rocksdb::Env* env);
  // Gives up the lock.
  ~DiskDirectory();

  // The numbers of its generations, the oldest first.
  std::vector<uint32_t> Generations() const;
  std::string PathOf(uint32_t generation) const;
  // Removes a generation's files, whatever they are.
  Status Remove(uint32_t generation) const;

  // Work of this kind begins or ends. One write to the page cache: it outlives a kill.
  void Mark(Work work, bool under_way);
  // Of the last user: "", or what it was stopped in, such as "writing, compacting"; "nothing" where
  // it was stopped between.
  const std::string& stopped_in() const { return stopped_in_; }

 private:
  DiskDirectory(std::string path, rocksdb::Env* env);
  Status Lock();
  Status CheckFormat(size_t block_bytes);
  Status OpenMarks();

  const std::string path_;
  rocksdb::Env* const env_;
  rocksdb::FileLock* lock_ = nullptr;
  int marks_ = -1;  // The open UNDER_WAY.
  std::string stopped_in_;
  std::mutex mutex_;
  int under_way_[3] = {};  // How many of each kind. Guarded by mutex_.
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_DISK_DIRECTORY_H_
