// The executor that computes on a device other than the CPU, with the same bits. Where more than
// the largest logit of a row matters, its logits come back to the host, which samples.
#ifndef ROPEWAY_EXECUTOR_GPU_EXECUTOR_H_
#define ROPEWAY_EXECUTOR_GPU_EXECUTOR_H_

#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/worker_team.h"
#include "executor/executor.h"
#include "executor/gpu_model.h"
#include "executor/gpu_pass.h"
#include "executor/step_plan.h"
#include "executor/weights.h"
#include "gpu/gpu.h"
#include "gpu/ops.h"
#include "kernels/kernels.h"
#include "sampling/sampler.h"

namespace ropeway::executor {

// See Executor. An item's results are those of CpuExecutor, to the bit.
class GpuExecutor final : public Executor {
 public:
  // `kernels` (not owned) and `threads` >= 1 are for sampling. `absent`: as for
  // CpuExecutor.
  GpuExecutor(std::unique_ptr<gpu::Gpu> gpu, std::shared_ptr<const Weights> weights,
              const kernels::Kernels* kernels, int threads,
              kernels::KvType kv_type = kernels::KvType::kF16, std::vector<TokenId> absent = {});
  ~GpuExecutor() override;

  // Copies the weights to the device, and gives up the host's. kInvalidArgument for a limit below
  // 1, kResourceExhausted if memory is short here or there.
  StatusOr<KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                          int max_num_seqs) override;
  void Launch(const core::Batch& batch) override;  // The device begins.
  StatusOr<core::StepResult> Wait() override;
  void ReadBlock(core::BlockId block, std::span<std::byte> bytes) override;
  // Returns before the device has the bytes.
  void WriteBlock(core::BlockId block, std::span<const std::byte> bytes) override;
  Status FinishReads() override { return Finish(); }

 private:
  Status MakePool(int64_t kv_cache_bytes);
  Status Collect(const core::Batch& batch, core::StepResult* result);
  void Sample(const core::Batch& batch, int begin, int rows, core::StepResult* result);
  // Waits for the device, and gives up what was kept for it.
  Status Finish();
  Status Pool(core::StepResult* result);

  const std::unique_ptr<gpu::Gpu> gpu_;
  const std::shared_ptr<const model::Model> model_;
  std::shared_ptr<const Weights> host_weights_;  // Until the device has them.
  const kernels::Kernels* const kernels_;
  const base::RealClock clock_;  // For the times in StepResult only.
  const int threads_;
  const kernels::KvType kv_type_;
  const std::vector<TokenId> absent_;
  const core::Batch* batch_ = nullptr;  // Between Launch and Wait.
  Status launched_;                     // Why the step was not begun.
  base::TimePoint begun_{};             // When Launch was called,
  base::TimePoint asked_for_{};         // and when it returned.
  GpuKvPool pool_;
  std::unique_ptr<gpu::Ops> ops_;
  std::unique_ptr<GpuModel> weights_;
  std::unique_ptr<GpuPass> pass_;
  std::unique_ptr<StepPlan> plan_;
  std::unique_ptr<base::WorkerTeam> team_;
  std::vector<sampling::Sampler> samplers_;  // One a worker.
  std::vector<float> logits_;                // [kGpuLogitsRows][vocab_size], or one of each row.
  std::vector<TokenId> largest_;             // [kGpuLogitsRows]
  std::vector<float> hidden_;                // [rows that are pooled][hidden_size]
  int64_t copied_bytes_ = 0;                 // Of blocks, since the last step.
  // Blocks that the device may not have yet.
  std::vector<std::vector<std::byte>> staged_;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_GPU_EXECUTOR_H_
