// The memory of the KV cache: [block][layer of a group][KV head], each as KvHeadBlockBytes
// describes it.
#ifndef ROPEWAY_EXECUTOR_KV_POOL_H_
#define ROPEWAY_EXECUTOR_KV_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/page_arena.h"
#include "core/batch.h"
#include "kernels/kernels.h"
#include "model/model_config.h"
#include "ropeway/status.h"

namespace ropeway::executor {

// Thread rule: distinct slots may be written at once; the pool itself is immutable after Create.
class KvPool {
 public:
  // Maps as many whole blocks as fit in `bytes`, at least one. kResourceExhausted if the system
  // denies the memory. Pages become resident when they are first written.
  static StatusOr<std::unique_ptr<KvPool>> Create(const model::ModelConfig& config,
                                                  kernels::KvType type, int64_t bytes);

  // Whole blocks that fit in `bytes`, at least one.
  static int32_t BlocksIn(int64_t bytes, size_t block_bytes);

  kernels::KvType type() const { return type_; }
  int32_t num_blocks() const { return num_blocks_; }
  size_t block_bytes() const { return block_bytes_; }

  // The groups of layers that have blocks of their own.
  const model::KvGroups& groups() const { return groups_; }
  int group(int layer) const { return groups_.places[static_cast<size_t>(layer)].group; }

  // K and V of (layer, head) in block 0. They are b * block_bytes() further in block b, which must
  // be one of the layer's group.
  std::byte* At(int layer, int kv_head) const {
    const int32_t index = groups_.places[static_cast<size_t>(layer)].index;
    return memory_.data() + static_cast<size_t>(index * num_kv_heads_ + kv_head) * head_bytes_;
  }

  std::span<std::byte> Block(core::BlockId block) const {
    return {memory_.data() + static_cast<size_t>(block) * block_bytes_, block_bytes_};
  }

 private:
  KvPool() = default;

  kernels::KvType type_ = kernels::KvType::kF16;
  model::KvGroups groups_;
  base::PageArena memory_;
  size_t block_bytes_ = 0;
  size_t head_bytes_ = 0;
  int32_t num_kv_heads_ = 0;
  int32_t num_blocks_ = 0;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_KV_POOL_H_
