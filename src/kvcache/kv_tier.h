// The KvTier seam: where KV blocks lie that the pool has no place for, and that outlive the
// process.
#ifndef ROPEWAY_KVCACHE_KV_TIER_H_
#define ROPEWAY_KVCACHE_KV_TIER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/block_name.h"

namespace ropeway {

// One block of a read, or the read's end.
struct KvRead {
  uint64_t ticket = 0;
  size_t index = 0;              // Into the names that Get was given.
  std::vector<std::byte> bytes;  // The block's bytes, checked; empty: it cannot be had.
  Duration took{};               // What the tier worked for it; 0: it does not say.
};

struct KvTierUsage {
  bool on = true;       // False: turned off by an error; it stores and finds nothing.
  uint64_t blocks = 0;  // Stored.
  uint64_t bytes = 0;   // Of storage, all overhead included.
  uint64_t capacity_bytes = 0;
  uint64_t pending_bytes = 0;  // Of memory: taken by Put and not yet stored, or read and not taken.
  uint64_t written_bytes = 0;  // Since the start, of blocks.
  uint64_t read_bytes = 0;     // Likewise.
  uint64_t rejected_blocks = 0;  // Found torn, foreign or corrupt since the start.
  uint64_t evicted_blocks = 0;   // Dropped for space since the start.
  double cpu_seconds = 0;        // Of the tier's own threads since the start.
};

// A tier may be slow, full or lossy: what it does not give back is recomputed, to the same bits. It
// must never give back wrong bytes: what is torn, corrupt or of another name counts as not there.
//
// Thread rule: every method from the engine thread, SetWake from the one that owns the tier; none
// of them waits for a device, and none throws: where memory is short, a block is not taken, or a
// read is not begun.
class KvTier {
 public:
  virtual ~KvTier() = default;

  // Whether the tier believes to have the block. Get decides: it may be gone or broken.
  virtual bool Contains(const BlockName& name) const = 0;

  // Stores a copy of `bytes`, some time. False, with nothing kept, where the tier is off or has
  // taken as much as it may hold in memory; true also where it has the block already.
  virtual bool Put(const BlockName& name, std::span<const std::byte> bytes) = 0;

  // Asks that all that was Put before survive the process, also a kill, as soon as may be.
  virtual void Flush() = 0;

  // Begins to read the blocks, in order. Each comes as a KvRead, in order; the first that cannot be
  // had comes with no bytes and ends the read. False where no read was begun. REQUIRES: names is
  // not empty; no read of this ticket is under way.
  virtual bool Get(uint64_t ticket, std::vector<BlockName> names) = 0;

  // Gives up a read: nothing more comes of it.
  virtual void Cancel(uint64_t ticket) = 0;

  // What was read since the last call, at most `max_blocks`, in the order in which it was read.
  virtual std::vector<KvRead> TakeReads(size_t max_blocks) = 0;

  // `wake` is called, from any thread, when TakeReads has something new. Set once, before the first
  // Get; nullptr: never again, and no call is under way when this returns.
  virtual void SetWake(std::function<void()> wake) = 0;

  virtual void Erase(const BlockName& name) = 0;

  virtual KvTierUsage Usage() const = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_KV_TIER_H_
