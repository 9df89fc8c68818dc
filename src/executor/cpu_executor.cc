#include "executor/cpu_executor.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace ropeway::executor {

CpuExecutor::CpuExecutor(std::shared_ptr<const model::Model> model, const kernels::Kernels* kernels,
                         int threads, kernels::KvType kv_type, std::vector<TokenId> absent)
    : model_(std::move(model)),
      kernels_(kernels),
      threads_(threads),
      kv_type_(kv_type),
      absent_(std::move(absent)) {
  std::sort(absent_.begin(), absent_.end());
  absent_.erase(std::unique(absent_.begin(), absent_.end()), absent_.end());
  std::erase_if(absent_,
                [this](TokenId id) { return id < 0 || id >= model_->config().vocab_size; });
}

CpuExecutor::~CpuExecutor() = default;

StatusOr<KvLayout> CpuExecutor::Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                     int max_num_seqs) {
  if (kv_cache_bytes < 0)
    return InvalidArgument("kv_cache_bytes must be at least 0", "kv_cache_bytes");
  if (threads_ < 1) return InvalidArgument("threads must be at least 1", "threads");
  if (max_num_batched_tokens < 1) {
    return InvalidArgument("max_num_batched_tokens must be at least 1", "max_num_batched_tokens");
  }
  if (max_num_seqs < 1) return InvalidArgument("max_num_seqs must be at least 1", "max_num_seqs");
  auto pool = KvPool::Create(model_->config(), kv_type_, kv_cache_bytes);
  if (!pool.ok()) return pool.status();
  try {
    PlanLimits limits;
    limits.workers = threads_;
    limits.max_rows = max_num_batched_tokens;
    limits.max_seqs = max_num_seqs;
    limits.vocab_size = model_->config().vocab_size;
    limits.max_positions = model_->max_positions();
    limits.num_blocks = (*pool)->num_blocks();
    limits.num_kv_heads = model_->config().num_kv_heads;
    limits.windows = (*pool)->groups().windows;
    limits.causal = model_->config().causal;
    pool_ = std::move(*pool);
    team_ = std::make_unique<base::WorkerTeam>(threads_);
    plan_ = std::make_unique<StepPlan>(limits);
    pass_ = std::make_unique<ForwardPass>(*model_, *kernels_, *pool_, team_.get(), clock_, limits,
                                          absent_);
  } catch (const std::exception& e) {  // No memory, or no more threads.
    return Status(StatusCode::kResourceExhausted,
                  std::string("cannot set up the executor: ") + e.what());
  }
  return KvLayout{pool_->num_blocks(), pool_->block_bytes(), pool_->groups().windows};
}

void CpuExecutor::Launch(const core::Batch& batch) { batch_ = &batch; }

core::StepResult CpuExecutor::PrepareResult(const core::Batch& batch) const {
  core::StepResult result;
  size_t sampled_rows = 0;
  size_t scored_rows = 0;
  for (const core::BatchItem& item : batch.items) {
    sampled_rows += item.sample ? 1 : 0;
    scored_rows += static_cast<size_t>(item.score_end - item.score_begin);
  }
  const auto hidden = static_cast<size_t>(model_->config().hidden_size);
  for (const core::BatchItem& item : batch.items) {
    if (item.pool_begin == item.pool_end) continue;
    core::Pooled& pooled = result.pooled.emplace_back();
    pooled.sequence = item.sequence;
    pooled.sum.assign(item.pool_sum.begin(), item.pool_sum.end());
    pooled.sum.resize(hidden);
  }
  result.sampled.reserve(sampled_rows);
  result.scored.reserve(scored_rows);
  const int32_t tokens = model_->config().vocab_size - static_cast<int32_t>(absent_.size());
  const auto wanted = [tokens](int32_t logprobs) {
    return static_cast<size_t>(std::clamp(logprobs, 0, tokens));
  };
  for (const core::BatchItem& item : batch.items) {
    for (int32_t position = item.score_begin; position < item.score_end; ++position) {
      core::Scored& scored = result.scored.emplace_back();
      scored.sequence = item.sequence;
      scored.position = position;
      scored.token = item.ids[static_cast<size_t>(position)];
      scored.top_logprobs.resize(wanted(item.spec->num_prompt_logprobs));
    }
    if (!item.sample) continue;
    core::Sampled& sampled = result.sampled.emplace_back();
    sampled.sequence = item.sequence;
    sampled.top_logprobs.resize(wanted(item.spec->num_logprobs));
  }
  return result;
}

StatusOr<core::StepResult> CpuExecutor::Wait() {
  const core::Batch* batch = std::exchange(batch_, nullptr);
  if (batch == nullptr) return Status(StatusCode::kInternal, "Wait was called without Launch");
  try {
    if (Status status = plan_->Build(*batch); !status.ok()) return status;
    core::StepResult result = PrepareResult(*batch);
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

void CpuExecutor::ReadBlock(core::BlockId block, std::span<std::byte> bytes) const {
  std::memcpy(bytes.data(), pool_->Block(block).data(), bytes.size());
}

void CpuExecutor::WriteBlock(core::BlockId block, std::span<const std::byte> bytes) {
  std::memcpy(pool_->Block(block).data(), bytes.data(), bytes.size());
}

}  // namespace ropeway::executor
