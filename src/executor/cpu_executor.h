// The executor that computes on this machine's CPU cores.
#ifndef ROPEWAY_EXECUTOR_CPU_EXECUTOR_H_
#define ROPEWAY_EXECUTOR_CPU_EXECUTOR_H_

#include <memory>
#include <span>
#include <vector>

#include "base/worker_team.h"
#include "executor/executor.h"
#include "executor/forward_pass.h"
#include "executor/kv_pool.h"
#include "executor/step_plan.h"
#include "executor/weights.h"
#include "kernels/kernels.h"

namespace ropeway::executor {

// See Executor. An item's results depend on the model, the KV type and the item alone: not on
// `threads`, the kernels' instruction set or the other items of the batch.
class CpuExecutor final : public Executor {
 public:
  // `kernels` is not owned. `threads` >= 1: the caller of Wait and threads - 1 more. `absent`: rows
  // of the vocabulary that are no token: none is ever drawn or listed, and the log-probs of the
  // others are as if it were not there. Ids of a prompt may be such rows.
  CpuExecutor(std::shared_ptr<const Weights> weights, const kernels::Kernels* kernels, int threads,
              kernels::KvType kv_type = kernels::KvType::kF16, std::vector<TokenId> absent = {});
  ~CpuExecutor() override;

  // kInvalidArgument for a limit below 1, kResourceExhausted if memory or threads are short.
  StatusOr<KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                          int max_num_seqs) override;
  void Launch(const core::Batch& batch) override;  // Wait does the computing.
  StatusOr<core::StepResult> Wait() override;
  void ReadBlock(core::BlockId block, std::span<std::byte> bytes) override;  // At once.
  void WriteBlock(core::BlockId block, std::span<const std::byte> bytes) override;
  Status FinishReads() override { return {}; }

 private:
  const std::shared_ptr<const Weights> weights_;
  const kernels::Kernels* const kernels_;
  const base::RealClock clock_;  // For the times in StepResult only.
  const int threads_;
  const kernels::KvType kv_type_;
  const std::vector<TokenId> absent_;   // Ascending.
  const core::Batch* batch_ = nullptr;  // Between Launch and Wait.
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<base::WorkerTeam> team_;
  std::unique_ptr<StepPlan> plan_;
  std::unique_ptr<ForwardPass> pass_;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_CPU_EXECUTOR_H_
