// The executor that computes on this machine's CPU cores.
#ifndef ROPEWAY_EXECUTOR_CPU_EXECUTOR_H_
#define ROPEWAY_EXECUTOR_CPU_EXECUTOR_H_

#include <memory>
#include <span>

#include "base/worker_team.h"
#include "executor/executor.h"
#include "executor/forward_pass.h"
#include "executor/kv_pool.h"
#include "executor/step_plan.h"
#include "kernels/kernels.h"
#include "model/model.h"

namespace ropeway {

// See Executor. What it computes depends on the model, the KV type and the batch's items alone, not
// on `threads`, on the kernels' instruction set, nor on which items share a batch.
class CpuExecutor final : public Executor {
 public:
  // `kernels` (not owned) computes everything; a test may pass a table of its own. `threads` >= 1:
  // the caller of Wait and threads - 1 more.
  CpuExecutor(std::shared_ptr<const Model> model, const Kernels* kernels, int threads,
              KvType kv_type = KvType::kF16);
  ~CpuExecutor() override;

  // Fails with kInvalidArgument for a limit below 1, kResourceExhausted where memory or threads are
  // not to be had.
  StatusOr<KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                          int max_num_seqs) override;
  void Launch(const Batch& batch) override;  // Computes nothing yet; Wait does.
  StatusOr<StepResult> Wait() override;
  void ReadBlock(BlockId block, std::span<std::byte> bytes) const override;
  void WriteBlock(BlockId block, std::span<const std::byte> bytes) override;

 private:
  StepResult PrepareResult(const Batch& batch) const;

  const std::shared_ptr<const Model> model_;
  const Kernels* const kernels_;
  const RealClock clock_;  // Only for the times in StepResult.
  const int threads_;
  const KvType kv_type_;
  const Batch* batch_ = nullptr;  // Between Launch and Wait.
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<WorkerTeam> team_;
  std::unique_ptr<StepPlan> plan_;
  std::unique_ptr<ForwardPass> pass_;
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_CPU_EXECUTOR_H_
