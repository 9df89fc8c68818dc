// What RocksDB's own threads do for the disk tier.
#ifndef ROPEWAY_KVCACHE_DISK_WATCH_H_
#define ROPEWAY_KVCACHE_DISK_WATCH_H_

#include <rocksdb/listener.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "kvcache/disk_directory.h"

namespace ropeway {

// CPU seconds of the calling thread since it began.
double ThreadCpuSeconds();

// Thread rule: every method from any thread.
class DiskWatch final : public rocksdb::EventListener {
 public:
  // Marks in `directory`, which must outlive it, what is under way. `on_error` is called when a
  // write in the background failed.
  DiskWatch(DiskDirectory* directory, std::function<void()> on_error);

  // CPU seconds of the flushes and compactions that have ended. They run in RocksDB's threads from
  // the begin to the end that it tells us of; what such a thread does around them is not in it.
  double cpu_seconds() const { return static_cast<double>(cpu_nanos_.load()) / 1e9; }
  // The first error; "": none.
  std::string error() const;

  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;

 private:
  void Begin(DiskDirectory::Work work);
  void End(DiskDirectory::Work work);

  DiskDirectory* const directory_;
  const std::function<void()> on_error_;
  std::atomic<int64_t> cpu_nanos_{0};
  mutable std::mutex mutex_;
  std::string error_;  // Guarded by mutex_.
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_DISK_WATCH_H_
