// The tier on disk: KV blocks in RocksDB databases without a write-ahead log, which survive a
// restart and a kill.
#ifndef ROPEWAY_KVCACHE_DISK_TIER_H_
#define ROPEWAY_KVCACHE_DISK_TIER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "kvcache/disk_index.h"
#include "kvcache/kv_tier.h"
#include "kvcache/tier_cost.h"
#include "ropeway/options.h"
#include "ropeway/status.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace ropeway::kvcache {

class DiskDirectory;
class DiskGeneration;
class DiskWatch;

struct DiskTierOptions {
  CacheOptions cache{};    // Its disk. The directory is created if need be; see MinCapacity.
  size_t block_bytes = 0;  // The largest block's size.
  int cores = 1;           // For WriteRate.
  // Bounds the tier's memory: three quarters for blocks that are not flushed yet, one for blocks
  // that were read and not taken. One block of each is always allowed.
  size_t memory_bytes = size_t{192} << 20;
  // A flush begins after so many bytes even if none was requested.
  size_t memtable_bytes = size_t{16} << 20;
  base::Duration flush_interval =
      std::chrono::milliseconds(200);  // At least, between requested flushes.
  base::Duration longest_in_memory = std::chrono::seconds(2);  // Then a flush begins unrequested.
  const base::Clock* clock = nullptr;                          // Must outlive the tier.
  rocksdb::Env* env = nullptr;  // For tests; nullptr: the machine's. Must outlive the tier.
};

// Blocks are written to the newest of about twelve generations (disk_generation.h). The space in
// use is measured from the files, and before a write that would exceed the capacity the oldest
// generation is dropped, so that the directory never grows beyond it. A block that is read from the
// oldest quarter of the generations is written to the newest again if the write queue is less than
// half full, so that blocks in use survive.
//
// Two threads do all the disk work: "ropeway-kv-disk" writes, "ropeway-kv-read" reads. A flush
// writes the same few files whatever it contains, so flushes are coalesced: one begins at once if
// the last was flush_interval ago and the queue is empty, else when that time is over. The
// destructor writes and flushes all blocks that were put, regardless of the rate.
//
// A write error of the device, a full disk included, turns the tier off until the next start, with
// one line in the log: it stores and finds nothing any more. So do kMaxDeviceErrors failed reads in
// a row. The files stay for the next start. A tier whose disk is full when it opens is off from
// then on.
class DiskTier final : public KvTier {
 public:
  static constexpr int kGenerations = 12;
  static constexpr int kMaxDeviceErrors = 8;

  // The least capacity for blocks of this size.
  static int64_t MinCapacity(size_t block_bytes);

  // Opens the directory; generations that are damaged are removed. Fails, naming the option, where
  // it cannot be used at all: not writable, in use by another process, not made by Ropeway or
  // damaged as a whole (then it is left as it was), a capacity below MinCapacity. Where the device
  // is full or fails, it succeeds with a tier that is off.
  static StatusOr<std::unique_ptr<DiskTier>> Open(const DiskTierOptions& options);

  ~DiskTier() override;

  bool Contains(const core::BlockName& name) const override;
  bool Put(const core::BlockName& name, std::vector<std::byte> bytes) override;
  void Flush() override;
  bool Get(uint64_t ticket, std::vector<core::BlockName> names) override;
  void Cancel(uint64_t ticket) override;
  std::vector<KvRead> TakeReads(size_t max_blocks) override;
  void SetWake(std::function<void()> wake) override;
  void Erase(const core::BlockName& name) override;
  KvTierUsage Usage() const override;

  // Flushes since the start.
  uint64_t flushes() const;

 private:
  using Bytes = std::vector<std::byte>;
  using Lock = std::unique_lock<std::mutex>;

  struct Generation {
    std::shared_ptr<DiskGeneration> blocks;
    uint64_t bytes = 0;  // As last measured.
  };
  // A block to write, or to erase from a generation.
  struct Job {
    core::BlockName name;
    uint64_t sequence = 0;
    std::shared_ptr<const Bytes> bytes;  // nullptr: erase.
    uint32_t erase_from = 0;
  };

  explicit DiskTier(const DiskTierOptions& options);
  Status OpenDirectory();  // kUnavailable: the device is full or fails.
  Status OpenGenerations();
  StatusOr<Generation> OpenGeneration(uint32_t number, bool create) const;
  void StayOff(const std::string& reason);
  void StartThreads();

  // The writing thread.
  void WriterMain();
  bool FlushDue(base::TimePoint now) const;
  base::Duration NextDeadline(base::TimePoint now);
  void DoJob(Lock* lock);
  Status StoreBlock(const Job& job, Lock* lock);
  void EraseBlock(const Job& job, Lock* lock);
  Status FlushNow(Lock* lock);
  Status MakeRoom(size_t bytes, Lock* lock);
  Status StartGeneration(Lock* lock);
  Status DropOldest(Lock* lock);
  uint64_t UsedBytes() const;  // Measured, plus the memtable's.
  void Account(size_t bytes);  // Charges CPU time since the last call to the rate.

  // The reading thread.
  void ReaderMain();
  void ReadNext(Lock* lock);
  void Rejected(const core::BlockName& name, uint32_t generation);
  bool MayKeep(uint32_t generation) const;
  void KeepInUse(const core::BlockName& name, uint32_t generation,
                 std::shared_ptr<const Bytes> bytes);

  // Queues a block to be written, or without bytes to be erased from a generation. False without
  // memory.
  bool Enqueue(const core::BlockName& name, std::shared_ptr<const Bytes> bytes,
               uint32_t erase_from);
  void TurnOff(const std::string& reason, Lock* lock);
  void Wake();

  const DiskTierOptions options_;
  const size_t put_limit_;
  const size_t read_limit_;
  const uint64_t generation_limit_;  // Bytes of disk.
  std::unique_ptr<DiskDirectory> directory_;
  std::shared_ptr<DiskWatch> watch_;  // Null in a tier that is off for want of its directory.

  mutable std::mutex mutex_;  // Guards all below, unless noted. Never held during disk work.
  std::condition_variable writer_wakes_;
  std::condition_variable reader_wakes_;
  bool stopping_ = false;
  bool off_ = false;
  DiskIndex index_;
  DiskReads reads_;
  std::map<uint32_t, Generation> generations_;  // The newest is written to.
  std::deque<Job> queue_;
  uint64_t last_sequence_ = 0;     // The last job's.
  uint64_t written_sequence_ = 0;  // Jobs up to it are done ...
  uint64_t flushed_sequence_ = 0;  // ... and flushed.
  uint64_t flush_target_ = 0;      // Flush was requested up to it.
  base::TimePoint flush_asked_{0};
  base::TimePoint last_flush_{0};
  base::TimePoint memtable_since_{0};
  std::vector<core::BlockName> memtable_;  // Written to the newest generation and not flushed.
  bool memtable_dirty_ = false;
  size_t memtable_bytes_ = 0;  // Bytes of blocks.
  size_t put_bytes_ = 0;       // Bytes of blocks that are queued or in the memtable.
  bool take_again_ = false;    // TakeReads had no memory.
  int device_errors_ = 0;      // Reads in a row.
  // What Usage tells.
  uint64_t written_bytes_ = 0;
  uint64_t read_bytes_ = 0;
  uint64_t rejected_ = 0;
  uint64_t evicted_ = 0;
  uint64_t flushes_ = 0;
  std::atomic<double> writer_cpu_{0};  // Seconds. Not guarded.
  std::atomic<double> reader_cpu_{0};  // Seconds. Not guarded.

  // Used by the writing thread alone; not guarded.
  WriteRate rate_;
  double accounted_cpu_ = 0;

  std::mutex wake_mutex_;
  std::function<void()> wake_;  // GUARDED_BY(wake_mutex_)

  std::thread writer_;
  std::thread reader_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_DISK_TIER_H_
