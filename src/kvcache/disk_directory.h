// The disk tier's directory: its lock, its format, and the work that its last process was killed
// in.
//
//   LOCK                  held by the process that uses the directory
//   FORMAT                what its blocks are (format, bytes of a block, byte order), checksummed
//   UNDER_WAY             the work of the process that uses it; only a kill leaves it behind
//   generation-00000001/  a RocksDB database (disk_generation.h) beside a file MADE_BY_ROPEWAY,
//                         which says so with its number; larger numbers are newer
//
// A directory with anything else in it, lost+found apart, is rejected and stays as it is. Of what
// is named like this nothing is ever changed or removed that another made: not a generation without
// its MADE_BY_ROPEWAY, and not what else lies in one that has it.
#ifndef ROPEWAY_KVCACHE_DISK_DIRECTORY_H_
#define ROPEWAY_KVCACHE_DISK_DIRECTORY_H_

#include <rocksdb/listener.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ropeway/status.h"

namespace rocksdb {
class Env;
class FileLock;
}  // namespace rocksdb

namespace ropeway::kvcache {

// Thread rule: Mark from any thread, the rest from one.
class DiskDirectory {
 public:
  // Work that a kill can interrupt. Each has a byte in UNDER_WAY, by its value: its letter while
  // the work lasts, else '-'.
  enum class Work { kWriting, kCompacting, kDropping };

  // Creates the directory if need be, takes its lock, and removes its generations if their format
  // is another one. kInvalidArgument, naming kv_disk_path: it cannot be made or locked, or what is
  // in it was not made by Ropeway or is damaged; then it is left as it was. kUnavailable: the disk
  // is full. `env` must outlive the object.
  static StatusOr<std::unique_ptr<DiskDirectory>> Open(const std::string& path, size_t block_bytes,
                                                       rocksdb::Env* env);
  // Releases the lock.
  ~DiskDirectory();

  // The numbers of its generations, oldest first.
  std::vector<uint32_t> Generations() const;
  // Above the numbers of all entries that are named like a generation.
  uint32_t NextNumber() const;
  std::string PathOf(uint32_t generation) const;
  // Makes the folder of a new generation. kUnavailable: the disk is full.
  Status Create(uint32_t generation) const;
  // Removes all files of a generation. Others stay, and the folder with them.
  Status Remove(uint32_t generation) const;

  // Work of this kind begins or ends. One write to the page cache, which survives a kill.
  void Mark(Work work, bool under_way);
  // The work in which the last process was killed, such as "writing, compacting"; "idle" if it
  // did no such work, "" if it was not killed.
  const std::string& stopped_in() const { return stopped_in_; }

 private:
  // What a directory holds before it is used.
  enum class Contents {
    kNothing,   // Nothing of the tier's.
    kSame,      // Blocks of this format ...
    kOther,     // ... of another one ...
    kUnmarked,  // ... or of the first, whose generations have no MADE_BY_ROPEWAY.
  };

  DiskDirectory(std::string path, rocksdb::Env* env);
  // kInvalidArgument: it is not ours. Changes nothing.
  StatusOr<Contents> Inspect(size_t block_bytes) const;
  // Inspects only the files that have names of the tier's. kInvalidArgument: they are not ours.
  StatusOr<Contents> InspectFormat(size_t block_bytes) const;
  Status Lock();
  // Gives the directory its format.
  Status Prepare(Contents contents, size_t block_bytes) const;
  // Removes what a kill left of a generation that was being made; tells of what is not ours.
  void TidyUnmarked() const;
  Status OpenMarks();
  // The numbers of all that is named like a generation.
  std::vector<uint32_t> Numbers() const;
  bool IsMarked(uint32_t generation) const;

  const std::string path_;
  rocksdb::Env* const env_;
  rocksdb::FileLock* lock_ = nullptr;
  int marks_ = -1;  // The open UNDER_WAY.
  std::string stopped_in_;
  std::mutex mutex_;
  int under_way_[3] = {};  // How many of each kind. GUARDED_BY(mutex_)
};

// CPU seconds of the calling thread since it began.
double ThreadCpuSeconds();

// Follows RocksDB's background work of the disk tier. Thread rule: every method from any thread.
class DiskWatch final : public rocksdb::EventListener {
 public:
  // Marks running work in `directory`, which must outlive it. `on_error` is called when a
  // background write fails.
  DiskWatch(DiskDirectory* directory, std::function<void()> on_error);

  // CPU seconds of completed flushes and compactions, between the begin and the end that RocksDB
  // reports.
  double cpu_seconds() const { return static_cast<double>(cpu_nanos_.load()) / 1e9; }
  // The first error; "": none.
  std::string error() const;

  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  // RocksDB does not try again: the tier is off after an error.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason, rocksdb::Status error,
                            bool* auto_recovery) override;

 private:
  void Begin(DiskDirectory::Work work);
  void End(DiskDirectory::Work work);

  DiskDirectory* const directory_;
  const std::function<void()> on_error_;
  std::atomic<int64_t> cpu_nanos_{0};
  mutable std::mutex mutex_;
  std::string error_;  // GUARDED_BY(mutex_)
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_DISK_DIRECTORY_H_
