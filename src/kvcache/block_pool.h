// The KV blocks as ids with reference counts; their bytes are the executor's.
#ifndef ROPEWAY_KVCACHE_BLOCK_POOL_H_
#define ROPEWAY_KVCACHE_BLOCK_POOL_H_

#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "ropeway/status.h"

namespace ropeway {

// A block is held (references > 0), free (on the free list), or cached: neither, kept for a later
// hit. Nothing caches blocks yet, so that number is 0 and CheckIntegrity says so.
// Thread rule: the engine thread.
class BlockPool {
 public:
  // REQUIRES: num_blocks >= 0.
  explicit BlockPool(int32_t num_blocks);

  // Takes a free block, with one reference. REQUIRES: num_free() > 0.
  BlockId Take();

  // Adds a reference to a held block.
  void Ref(BlockId block);

  // Drops a reference; the last one makes the block free. REQUIRES: the block is held.
  void Unref(BlockId block);

  int32_t references(BlockId block) const { return references_[static_cast<size_t>(block)]; }
  int32_t num_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_held() const { return num_held_; }
  int32_t num_cached() const { return num_blocks() - num_free() - num_held(); }

  // Every block is held, or on the free list exactly once. O(blocks).
  Status CheckIntegrity() const;

 private:
  std::vector<int32_t> references_;  // By block.
  std::vector<BlockId> free_;        // Last in, first out: the block most likely still in a cache.
  int32_t num_held_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_BLOCK_POOL_H_
