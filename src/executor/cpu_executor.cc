#include "executor/cpu_executor.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "executor/sample_row.h"

namespace ropeway::executor {

CpuExecutor::CpuExecutor(std::shared_ptr<const Weights> weights, const kernels::Kernels* kernels,
                         int threads, kernels::KvType kv_type, std::vector<TokenId> absent)
    : weights_(std::move(weights)),
      kernels_(kernels),
      threads_(threads),
      kv_type_(kv_type),
      absent_(AbsentRows(std::move(absent), weights_->config().vocab_size)) {}

CpuExecutor::~CpuExecutor() = default;

StatusOr<KvLayout> CpuExecutor::Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                     int max_num_seqs) {
  if (Status bad = CheckLimits(kv_cache_bytes, threads_, max_num_batched_tokens, max_num_seqs);
      !bad.ok()) {
    return bad;
  }
  auto pool = KvPool::Create(weights_->config(), kv_type_, kv_cache_bytes);
  if (!pool.ok()) return pool.status();
  try {
    PlanLimits limits;
    limits.workers = threads_;
    limits.max_rows = max_num_batched_tokens;
    limits.max_seqs = max_num_seqs;
    limits.vocab_size = weights_->config().vocab_size;
    limits.max_positions = weights_->model()->max_positions();
    limits.num_blocks = (*pool)->num_blocks();
    limits.num_kv_heads = weights_->config().num_kv_heads;
    limits.windows = (*pool)->groups().windows;
    limits.causal = weights_->config().causal;
    pool_ = std::move(*pool);
    team_ = std::make_unique<base::WorkerTeam>(threads_);
    plan_ = std::make_unique<StepPlan>(limits);
    pass_ = std::make_unique<ForwardPass>(*weights_, *kernels_, *pool_, team_.get(), clock_, limits,
                                          absent_);
  } catch (const std::exception& e) {  // No memory, or no more threads.
    return Status(StatusCode::kResourceExhausted,
                  std::string("cannot set up the executor: ") + e.what());
  }
  KvLayout layout{pool_->num_blocks(), pool_->block_bytes(), pool_->groups().windows};
  // The rest of the profile is its defaults: they are a CPU's.
  layout.device.memory_bytes =
      int64_t{pool_->num_blocks()} * static_cast<int64_t>(pool_->block_bytes());
  return layout;
}

void CpuExecutor::Launch(const core::Batch& batch) { batch_ = &batch; }

StatusOr<core::StepResult> CpuExecutor::Wait() {
  const core::Batch* batch = std::exchange(batch_, nullptr);
  if (batch == nullptr) return Status(StatusCode::kInternal, "Wait was called without Launch");
  try {
    if (Status status = plan_->Build(*batch); !status.ok()) return status;
    core::StepResult result =
        PrepareResult(*batch, weights_->config().hidden_size,
                      weights_->config().vocab_size - static_cast<int32_t>(absent_.size()));
    if (batch->items.empty()) return result;
    const base::TimePoint begin = clock_.Now();
    pass_->Run(*batch, plan_.get(), &result);
    result.forward = clock_.Now() - begin;
    return result;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory");  // Needs none itself.
  } catch (const std::exception& e) {
    return Status(StatusCode::kInternal, std::string("a step failed: ") + e.what());
  }
}

void CpuExecutor::ReadBlock(core::BlockId block, std::span<std::byte> bytes) {
  std::memcpy(bytes.data(), pool_->Block(block).data(), bytes.size());
}

void CpuExecutor::WriteBlock(core::BlockId block, std::span<const std::byte> bytes) {
  std::memcpy(pool_->Block(block).data(), bytes.data(), bytes.size());
}

}  // namespace ropeway::executor
