// The Executor seam: computes the next tokens of a batch on one device. It owns the bytes of the KV
// pool; the kvcache room decides which sequence holds a block.
#ifndef ROPEWAY_EXECUTOR_EXECUTOR_H_
#define ROPEWAY_EXECUTOR_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/device_profile.h"
#include "ropeway/status.h"

namespace ropeway::executor {

// The KV pool that the executor allocated, and the device that has it.
struct KvLayout {
  int32_t num_blocks = 0;  // Blocks in the pool: ids 0 .. num_blocks - 1.
  size_t block_bytes = 0;  // One block over a group's layers and heads; also the unit of a tier.
  // The positions that the layers of each group see; 0: all. Ascending. Each group has blocks of
  // its own; most models have one group.
  std::vector<int32_t> windows = {0};
  core::DeviceProfile device{};
};

// Thread rule: all calls from the engine thread, which may compute inside Wait.
class Executor {
 public:
  virtual ~Executor() = default;

  // Allocates the pool and everything that a step needs. Called once, before all others.
  // `kv_cache_bytes`: the pool holds as many whole blocks as fit, at least one.
  // `max_num_batched_tokens`, `max_num_seqs`: no batch exceeds them.
  virtual StatusOr<KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                  int max_num_seqs) = 0;

  // Begins one forward pass. `batch` must live, unchanged, until Wait returns; only its masks may
  // be filled until Wait is called. REQUIRES: no pass is running; the items are of distinct
  // sequences and within the limits.
  virtual void Launch(const core::Batch& batch) = 0;

  // Ends the pass begun by Launch. kResourceExhausted: memory was short, and the same positions may
  // be computed again. Any other error means that the device is lost: the engine fails all
  // requests. The result is valid until the next Launch.
  virtual StatusOr<core::StepResult> Wait() = 0;

  // ReadBlock begins to copy a block's bytes out of the pool, as they are before whatever is asked
  // next. They are there once the next Wait, or FinishReads, has returned OK; until then, or until
  // FinishReads has failed, `bytes` must live, unchanged and not read. WriteBlock copies bytes into
  // the pool; what it could not do is said by the next Wait. REQUIRES: no pass is running;
  // bytes.size() == block_bytes.
  virtual void ReadBlock(core::BlockId block, std::span<std::byte> bytes) = 0;
  virtual void WriteBlock(core::BlockId block, std::span<const std::byte> bytes) = 0;
  // Ends the reads that were begun, whether or not a Launch without its Wait followed. Fails where
  // the device is lost: the bytes are then nothing, and not written to any more either.
  [[nodiscard]] virtual Status FinishReads() = 0;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_EXECUTOR_H_
