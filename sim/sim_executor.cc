#include "sim_executor.h"

#include <algorithm>

#include "engine/engine_core.h"

namespace ropeway::sim {

StatusOr<KvLayout> SimExecutor::Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                     int max_num_seqs) {
  lost_ = false;
  prompt_rows_.clear();
  memory_gone_ = 0;
  return device_.Init(kv_cache_bytes, max_num_batched_tokens, max_num_seqs);
}

void SimExecutor::Launch(const Batch& batch) {
  batch_ = batch;
  if (plant_ == Plant::kDiff) CorruptRecomputed();
  device_.Launch(batch_);
}

void SimExecutor::CorruptRecomputed() {
  for (BatchItem& item : batch_.items) {
    int32_t& written = written_[item.sequence];
    if (item.start < written) item.tokens[0] += 1;
    written = std::max(written, item.start + static_cast<int32_t>(item.tokens.size()));
  }
}

StatusOr<StepResult> SimExecutor::Wait() {
  Duration cost = std::chrono::milliseconds(1);
  for (const BatchItem& item : batch_.items) {
    const auto rows = static_cast<int64_t>(item.tokens.size());
    cost += std::chrono::microseconds(50 * rows) +
            std::chrono::nanoseconds(100 * rows * (item.start + rows));
  }
  if (faults_->Fires("slow_step")) cost *= 100;
  clock_->Advance(cost);
  if (faults_->Fires("device_lost") || lost_) {
    return Status(StatusCode::kUnavailable, "simulated loss of the device");
  }
  if (faults_->Fires("memory_gone")) memory_gone_ = EngineCore::kMaxMemoryTries + 2;
  if (faults_->Fires("short_of_memory") || memory_gone_ > 0) {
    if (memory_gone_ > 0) --memory_gone_;
    return Status(StatusCode::kResourceExhausted, "out of memory");
  }
  StatusOr<StepResult> result = device_.Wait();
  for (const BatchItem& item : batch_.items) {
    const auto end = item.start + static_cast<int32_t>(item.tokens.size());
    if (!prompt_len_of_) break;
    const int32_t prompt = prompt_len_of_(item.sequence);
    prompt_rows_[item.sequence] += std::max(0, std::min(end, prompt) - item.start);
  }
  if (result.ok() && !result->sampled.empty() && faults_->Fires("wrong_answer")) {
    result->sampled.pop_back();
  }
  return result;
}

void SimExecutor::ReadBlock(BlockId block, std::span<std::byte> bytes) const {
  device_.ReadBlock(block, bytes);
}

void SimExecutor::WriteBlock(BlockId block, std::span<const std::byte> bytes) {
  device_.WriteBlock(block, bytes);
}

}  // namespace ropeway::sim
