// What the disk tier keeps in memory: an index of its blocks, so that a look-up costs no access to
// the disk, and the queue of reads.
#ifndef ROPEWAY_KVCACHE_DISK_INDEX_H_
#define ROPEWAY_KVCACHE_DISK_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/block_name.h"
#include "kvcache/kv_tier.h"

namespace ropeway::kvcache {

// The blocks of the disk tier by name. A block is queued (its bytes are in memory only), then
// written to a generation, then flushed with it. A stored block may be queued again, to move to a
// newer generation; its old copy serves until the new one is written.
//
// Thread rule: guarded by its owner. Methods that throw std::bad_alloc have then changed nothing.
class DiskIndex {
 public:
  struct Entry {
    uint32_t generation = 0;  // 0: in none yet.
    bool flushed = false;     // A copy survives the process.
    uint64_t sequence = 0;    // Number of the last Put that queued it; numbers increase.
    std::shared_ptr<const std::vector<std::byte>> queued;  // nullptr: not queued.
  };

  // nullptr: none. Valid until the next change.
  const Entry* Find(const core::BlockName& name) const;

  // Throws std::bad_alloc.
  void Queue(const core::BlockName& name, uint64_t sequence,
             std::shared_ptr<const std::vector<std::byte>> bytes);

  // Reserves the memory for one Written. Throws std::bad_alloc.
  void Reserve(uint32_t generation);
  // The block that was queued under this number is in `generation` now. False if it is obsolete:
  // the block was erased, or erased and queued anew.
  bool Written(const core::BlockName& name, uint64_t sequence, uint32_t generation);
  // Notes that these blocks of `generation` are flushed now.
  void Flushed(std::span<const core::BlockName> names, uint32_t generation);

  // Adds blocks that an earlier process flushed; they replace older ones of the same name. Throws
  // std::bad_alloc.
  void AddStored(std::vector<core::BlockName> names, uint32_t generation);

  // Removes the block. False if there is none.
  bool Erase(const core::BlockName& name);

  // Removes up to `count` blocks of a generation that is dropped; true: none is left. `*dropped`
  // grows by the number of blocks that are lost.
  bool DropSome(uint32_t generation, size_t count, uint64_t* dropped);

  void Clear();

  uint64_t flushed() const { return flushed_; }  // Blocks.

 private:
  std::unordered_map<core::BlockName, Entry, core::BlockNameHash> entries_;
  // By generation, all names that were ever written to it; some have moved or were erased.
  std::map<uint32_t, std::vector<core::BlockName>> names_;
  uint64_t flushed_ = 0;
};

// The reads of the disk tier in order, and their results. Thread rule: guarded by its owner.
class DiskReads {
 public:
  // One read. Its memory is reserved for all results, so that none can be lost.
  struct Job {
    uint64_t ticket = 0;
    std::vector<core::BlockName> names;
    std::vector<KvRead> reads;  // reserved to names.size()
    size_t taken = 0;           // How many of `reads` are taken.
    bool ended = false;         // `reads` is complete.
  };

  // Throws std::bad_alloc with nothing changed.
  void Begin(uint64_t ticket, std::vector<core::BlockName> names);
  void Cancel(uint64_t ticket);

  // The job whose block job->names[job->reads.size()] is to be read next; nullptr: none.
  std::shared_ptr<Job> Next() const;
  // Delivers the next block of `job`; no bytes: it cannot be read. No effect if the job has ended.
  void Deliver(Job* job, std::vector<std::byte> bytes, base::Duration took = {});
  // Ends all reads.
  void EndAll();

  // Takes at most `max_blocks` of the delivered blocks. Throws std::bad_alloc with nothing taken.
  std::vector<KvRead> Take(size_t max_blocks);

  // Blocks that were delivered and not taken.
  uint64_t bytes() const { return bytes_; }
  bool any() const { return ready_ > 0; }

 private:
  std::deque<std::shared_ptr<Job>> jobs_;  // In the order of Begin; the ended ones come first.
  size_t ready_ = 0;                       // Delivered and not taken.
  uint64_t bytes_ = 0;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_DISK_INDEX_H_
