#include "executor/kv_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <string>

namespace ropeway::executor {

StatusOr<std::unique_ptr<KvPool>> KvPool::Create(const model::ModelConfig& config,
                                                 kernels::KvType type, int64_t bytes) {
  std::unique_ptr<KvPool> pool(new KvPool);
  pool->type_ = type;
  pool->block_bytes_ = config.kv_block_bytes(type);
  pool->head_bytes_ = kernels::KvHeadBlockBytes(type, config.head_dim);
  pool->num_kv_heads_ = config.num_kv_heads;
  const int64_t fitting = bytes / static_cast<int64_t>(pool->block_bytes_);
  pool->num_blocks_ =
      static_cast<int32_t>(std::clamp<int64_t>(fitting, 1, std::numeric_limits<int32_t>::max()));
  const size_t size = static_cast<size_t>(pool->num_blocks_) * pool->block_bytes_;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Status(StatusCode::kResourceExhausted,
                  "cannot allocate a KV cache of " + std::to_string(size) + " bytes",
                  "kv_cache_bytes");
  }
  pool->data_ = static_cast<std::byte*>(data);
  pool->mapped_bytes_ = size;
  madvise(data, size, MADV_HUGEPAGE);  // Only advice: without large pages it is slower, not wrong.
  return pool;
}

KvPool::~KvPool() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

}  // namespace ropeway::executor
