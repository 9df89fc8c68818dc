// Which cached blocks are still to be stored in the tier, in the order in which they came.
#ifndef ROPEWAY_KVCACHE_WRITE_BACK_QUEUE_H_
#define ROPEWAY_KVCACHE_WRITE_BACK_QUEUE_H_

#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "kvcache/block_pool.h"
#include "kvcache/kv_tier.h"

namespace ropeway {

// Holds no reference, so a block whose place is needed first drops out. Thread rule: the engine
// thread.
class WriteBackQueue {
 public:
  explicit WriteBackQueue(int32_t num_blocks);

  // Without effect where the block is in it already.
  void Add(BlockId block);
  // Whether the block is in it; no more after the call.
  bool Remove(BlockId block);
  // Takes the next block that still has a name which `tier` does not know; false: none is left.
  bool Next(const BlockPool& pool, const KvTier* tier, BlockId* block);

  void Clear();

  int32_t size() const { return size_; }

 private:
  std::vector<BlockId> ring_;    // With gaps: of what was removed, or twice in it.
  std::vector<uint8_t> queued_;  // By block.
  size_t first_ = 0;
  size_t used_ = 0;   // Of the ring, from first_ on: with those that were removed.
  int32_t size_ = 0;  // Without them.
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_WRITE_BACK_QUEUE_H_
