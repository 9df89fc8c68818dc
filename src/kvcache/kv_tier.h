// The KvTier seam: storage behind the pool for KV blocks that survive eviction and the process.
#ifndef ROPEWAY_KVCACHE_KV_TIER_H_
#define ROPEWAY_KVCACHE_KV_TIER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "core/block_name.h"

namespace ropeway::kvcache {

// One block of a read, or the read's end.
struct KvRead {
  uint64_t ticket = 0;
  size_t index = 0;              // Into the names that Get was given.
  std::vector<std::byte> bytes;  // The block's bytes, checked; empty: it cannot be read.
  base::Duration took{};         // The tier's time for it; 0: unknown.
};

struct KvTierUsage {
  bool on = true;       // False: an error turned it off; it stores and finds nothing.
  uint64_t blocks = 0;  // Stored.
  uint64_t bytes = 0;   // Storage in use, all overhead included.
  uint64_t capacity_bytes = 0;
  uint64_t pending_bytes =
      0;  // Memory in use: taken by Put and not yet stored, or read and not taken.
  uint64_t written_bytes = 0;    // Blocks written since the start.
  uint64_t read_bytes = 0;       // Blocks read since the start.
  uint64_t rejected_blocks = 0;  // Found torn, foreign or corrupt since the start.
  uint64_t evicted_blocks = 0;   // Dropped for space since the start.
  double cpu_seconds = 0;        // The tier's own threads, since the start.
};

// A tier may be slow, full or lossy: a block that it does not return is recomputed, to the same
// bits. It must never return wrong bytes: a torn or corrupt block, or one of another name, counts
// as missing.
//
// Thread rule: every method from the engine thread, SetWake from the owner's, Usage from any. None
// of them waits for a device, and none throws: without memory a block is not stored, or a read not
// begun.
class KvTier {
 public:
  virtual ~KvTier() = default;

  // Whether the tier expects to have the block. Only Get can tell: it may be lost or damaged.
  virtual bool Contains(const core::BlockName& name) const = 0;

  // Stores `bytes` later. False, with nothing kept, where the tier is off or its memory is full;
  // true also where it has the block already.
  virtual bool Put(const core::BlockName& name, std::vector<std::byte> bytes) = 0;

  // Makes all earlier Puts survive the process, also a kill, as soon as possible.
  virtual void Flush() = 0;

  // Begins to read the blocks. Each is delivered as a KvRead, in order; the first that cannot be
  // read has no bytes and ends the read. False where no read was begun. REQUIRES: names is not
  // empty; no read of this ticket is running.
  virtual bool Get(uint64_t ticket, std::vector<core::BlockName> names) = 0;

  // Cancels a read: nothing more of it is delivered.
  virtual void Cancel(uint64_t ticket) = 0;

  // The blocks that were read since the last call, at most `max_blocks`, in order.
  virtual std::vector<KvRead> TakeReads(size_t max_blocks) = 0;

  // `wake` is called from any thread when TakeReads has new blocks. Set once, before the first Get;
  // after SetWake(nullptr) has returned, it is not called any more.
  virtual void SetWake(std::function<void()> wake) = 0;

  virtual void Erase(const core::BlockName& name) = 0;

  virtual KvTierUsage Usage() const = 0;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_KV_TIER_H_
