// A device without a model and without KV bytes, whose steps take virtual time.
#ifndef ROPEWAY_BENCH_REPLAY_VIRTUAL_EXECUTOR_H_
#define ROPEWAY_BENCH_REPLAY_VIRTUAL_EXECUTOR_H_

#include <cstdint>
#include <span>

#include "base/virtual_clock.h"
#include "executor/executor.h"
#include "bench/replay/step_time.h"

namespace ropeway {

// Its tokens are such that no two sequences generate alike. A block has one byte, of no meaning.
// Thread rule: see Executor.
class VirtualExecutor final : public Executor {
 public:
  static constexpr size_t kBlockBytes = 1;
  // Ids from here on are generated; prompts have lower ones.
  static constexpr TokenId kFirstGenerated = 1 << 20;

  // `clock` must outlive it.
  VirtualExecutor(VirtualClock* clock, const StepTime& cost) : clock_(clock), cost_(cost) {}

  StatusOr<KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                          int max_num_seqs) override;
  void Launch(const Batch& batch) override { batch_ = &batch; }
  StatusOr<StepResult> Wait() override;
  void ReadBlock(BlockId block, std::span<std::byte> bytes) const override;
  void WriteBlock(BlockId block, std::span<const std::byte> bytes) override;

  int64_t steps() const { return steps_; }
  int64_t rows() const { return rows_; }  // Tokens that were computed.

 private:
  VirtualClock* const clock_;
  const StepTime cost_;
  const Batch* batch_ = nullptr;
  int64_t steps_ = 0;
  int64_t rows_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_REPLAY_VIRTUAL_EXECUTOR_H_
