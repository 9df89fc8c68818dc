// Who holds which KV block: allocates block tables and gives them back.
#ifndef ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_
#define ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"
#include "kvcache/block_pool.h"
#include "ropeway/status.h"

namespace ropeway {

// Blocks that hold `positions` positions.
inline int32_t BlocksFor(int64_t positions) {
  return static_cast<int32_t>((positions + kBlockTokens - 1) / kBlockTokens);
}

// Thread rule: the engine thread.
class KvCacheManager {
 public:
  explicit KvCacheManager(int32_t num_blocks) : pool_(num_blocks) {}

  // Extends `table` to hold `positions` positions. All or nothing: false, and nothing changed,
  // where the free blocks do not suffice.
  bool Allocate(std::vector<BlockId>* table, int32_t positions);

  // Gives all blocks of `table` back and empties it.
  void Release(std::vector<BlockId>* table);

  const BlockPool& pool() const { return pool_; }

  // Checks the pool, and that the reference counts are exactly those of `tables`, which are all
  // tables there are: a block nobody names is leaked, one named too often is shared by mistake.
  Status CheckIntegrity(std::span<const std::vector<BlockId>* const> tables) const;

 private:
  BlockPool pool_;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_
