// The Executor seam: turns a batch into next tokens on one device. It owns the KV pool's bytes; who
// owns a block is kvcache's business.
#ifndef ROPEWAY_EXECUTOR_EXECUTOR_H_
#define ROPEWAY_EXECUTOR_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/batch.h"
#include "ropeway/status.h"

namespace ropeway {

// The KV pool as the executor laid it out.
struct KvLayout {
  int32_t num_blocks = 0;  // Blocks in the pool: ids 0 .. num_blocks - 1.
  size_t block_bytes = 0;  // Bytes of one block over all layers and heads; also a tier's unit.
};

// Thread rule: all calls from the one engine thread, which may compute inside Wait.
class Executor {
 public:
  virtual ~Executor() = default;

  // Allocates the pool and everything a step needs. Called once, first.
  // `kv_cache_bytes`: the pool holds as many whole blocks as fit, at least one.
  // `max_num_batched_tokens`, `max_num_seqs`: no batch exceeds them.
  virtual StatusOr<KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                  int max_num_seqs) = 0;

  // Begins one forward pass. `batch` must live, unchanged, until Wait returns.
  // REQUIRES: no pass is under way; the batch's items name distinct sequences and within limits.
  virtual void Launch(const Batch& batch) = 0;

  // Ends the pass begun by Launch. kResourceExhausted: memory was short, and the same positions may
  // be computed again. Any other failure means that the device is lost: the engine fails what runs.
  // The reply is valid until the next Launch.
  virtual StatusOr<StepResult> Wait() = 0;

  // Copies a block's bytes out of or into the pool. REQUIRES: no pass is under way;
  // bytes.size() == block_bytes.
  virtual void ReadBlock(BlockId block, std::span<std::byte> bytes) const = 0;
  virtual void WriteBlock(BlockId block, std::span<const std::byte> bytes) = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_EXECUTOR_H_
