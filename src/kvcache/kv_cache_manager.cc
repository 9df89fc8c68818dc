#include "kvcache/kv_cache_manager.h"

#include <string>

namespace ropeway {

bool KvCacheManager::Allocate(std::vector<BlockId>* table, int32_t positions) {
  const int32_t missing = BlocksFor(positions) - static_cast<int32_t>(table->size());
  if (missing > pool_.num_free()) return false;
  for (int32_t i = 0; i < missing; ++i) table->push_back(pool_.Take());
  return true;
}

void KvCacheManager::Release(std::vector<BlockId>* table) {
  // Backwards, so that the next table built from them has them in the same order.
  for (auto it = table->rbegin(); it != table->rend(); ++it) pool_.Unref(*it);
  table->clear();
}

Status KvCacheManager::CheckIntegrity(std::span<const std::vector<BlockId>* const> tables) const {
  if (Status status = pool_.CheckIntegrity(); !status.ok()) return status;
  std::vector<int32_t> named(static_cast<size_t>(pool_.num_blocks()), 0);
  for (const std::vector<BlockId>* table : tables) {
    for (const BlockId block : *table) {
      if (block < 0 || block >= pool_.num_blocks()) {
        return {StatusCode::kInternal,
                "a block table names block " + std::to_string(block) + ", which does not exist"};
      }
      ++named[static_cast<size_t>(block)];
    }
  }
  for (BlockId block = 0; block < pool_.num_blocks(); ++block) {
    const int32_t n = named[static_cast<size_t>(block)];
    if (n == pool_.references(block)) continue;
    return {StatusCode::kInternal,
            "block " + std::to_string(block) + " has " + std::to_string(pool_.references(block)) +
                " references, but block tables name it " + std::to_string(n) + " times"};
  }
  return {};
}

}  // namespace ropeway
