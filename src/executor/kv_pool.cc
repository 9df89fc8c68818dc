#include "executor/kv_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace ropeway::executor {

int32_t KvPool::BlocksIn(int64_t bytes, size_t block_bytes) {
  const int64_t fitting = bytes / static_cast<int64_t>(block_bytes);
  return static_cast<int32_t>(std::clamp<int64_t>(fitting, 1, std::numeric_limits<int32_t>::max()));
}

StatusOr<std::unique_ptr<KvPool>> KvPool::Create(const model::ModelConfig& config,
                                                 kernels::KvType type, int64_t bytes) {
  std::unique_ptr<KvPool> pool(new KvPool);
  pool->type_ = type;
  pool->groups_ = config.kv_groups();
  pool->block_bytes_ = config.kv_block_bytes(type);
  pool->head_bytes_ = kernels::KvHeadBlockBytes(type, config.head_dim);
  pool->num_kv_heads_ = config.num_kv_heads;
  pool->num_blocks_ = BlocksIn(bytes, pool->block_bytes_);
  const size_t size = static_cast<size_t>(pool->num_blocks_) * pool->block_bytes_;
  StatusOr<base::PageArena> memory = base::PageArena::Make(size);
  if (!memory.ok()) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("--kv-cache-size: a KV cache of {} bytes cannot be allocated", size),
                  "kv_cache_bytes");
  }
  pool->memory_ = *std::move(memory);
  return pool;
}

}  // namespace ropeway::executor
