#include "doubles.h"

#include <algorithm>
#include <cstring>

#include "engine/engine_core.h"

namespace ropeway::sim {

SimExecutor::SimExecutor(base::VirtualClock* clock, base::FaultPoints* faults, Plant plant,
                         std::function<int32_t(uint64_t)> prompt_len_of)
    : clock_(clock), faults_(faults), prompt_len_of_(std::move(prompt_len_of)) {
  before_step = [this](const core::Batch& batch) { return BeforeStep(batch); };
  after_step = [this](const core::Batch& batch, core::StepResult* result) {
    AfterStep(batch, result);
  };
  if (plant != Plant::kDiff) return;
  change_batch = [this](core::Batch* batch) {
    changed_tokens_.clear();
    for (core::BatchItem& item : batch->items) {
      int32_t& written = written_[item.sequence];
      if (item.start < written) {
        item.tokens = changed_tokens_.emplace_back(item.tokens.begin(), item.tokens.end());
        ++changed_tokens_.back()[0];
      }
      written = std::max(written, item.start + static_cast<int32_t>(item.tokens.size()));
    }
  };
}

StatusOr<executor::KvLayout> SimExecutor::Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                               int max_num_seqs) {
  lost_ = false;
  prompt_rows_.clear();
  memory_gone_ = 0;
  return engine::TestExecutor::Init(kv_cache_bytes, max_num_batched_tokens, max_num_seqs);
}

Status SimExecutor::FinishReads() {
  Status done = engine::TestExecutor::FinishReads();  // Ends them in any case.
  if (lost_) return Status(StatusCode::kUnavailable, "simulated loss of the device");
  return done;
}

base::Duration SimExecutor::TimeOf(int32_t start, int32_t tokens) {
  const int64_t rows = tokens;
  return std::chrono::microseconds(50 * rows) +
         std::chrono::nanoseconds(100 * rows * (start + rows));
}

base::Duration SimExecutor::TimeOf(const core::StepContent::Item& item,
                                   const core::CoreRequest& request) {
  const base::Duration time = TimeOf(item.start, item.tokens);
  const auto ids = static_cast<int32_t>(request.num_ids());
  const bool samples =
      item.kind == core::StepContent::Kind::kDecode || item.start + item.tokens >= ids;
  return samples ? time + SamplingTime(request.spec.params) : time;
}

Status SimExecutor::BeforeStep(const core::Batch& batch) {
  base::Duration cost = std::chrono::milliseconds(1);
  for (const core::BatchItem& item : batch.items) {
    cost += TimeOf(item.start, static_cast<int32_t>(item.tokens.size()));
    if (item.sample) cost += SamplingTime(item.spec->params);
  }
  if (faults_->Fires("slow_step")) cost *= 100;
  clock_->Advance(cost);
  if (faults_->Fires("device_lost") || lost_) {
    return Status(StatusCode::kUnavailable, "simulated loss of the device");
  }
  if (faults_->Fires("memory_gone")) memory_gone_ = engine::EngineCore::kMaxMemoryTries + 2;
  if (faults_->Fires("short_of_memory") || memory_gone_ > 0) {
    if (memory_gone_ > 0) --memory_gone_;
    return Status(StatusCode::kResourceExhausted, "out of memory");
  }
  return {};
}

void SimExecutor::AfterStep(const core::Batch& batch, core::StepResult* result) {
  size_t next = 0;
  for (const core::BatchItem& item : batch.items) {
    if (!item.sample) continue;
    core::Sampled& sampled = result->sampled[next++];
    sampled.took = SamplingTime(item.spec->params);
    result->sampling += sampled.took;
  }
  for (const core::BatchItem& item : batch.items) {
    if (!prompt_len_of_) break;
    const auto end = item.start + static_cast<int32_t>(item.tokens.size());
    const int32_t prompt = prompt_len_of_(item.sequence);
    // Without its mask the last row is computed again, which says nothing of the cache.
    const int32_t again = item.mask != nullptr && !item.mask->ready && end <= prompt ? 1 : 0;
    prompt_rows_[item.sequence] += std::max(0, std::min(end, prompt) - item.start - again);
  }
  if (on_computed) on_computed(batch);
  if (!result->sampled.empty() && faults_->Fires("wrong_answer")) result->sampled.pop_back();
}

SimTier::SimTier(const TierSetup& setup, const base::VirtualClock* clock, base::FaultPoints* faults,
                 Plant plant, PartialOf partial_of)
    : setup_(setup),
      clock_(clock),
      faults_(faults),
      plant_(plant),
      partial_of_(std::move(partial_of)) {
  capacity = static_cast<size_t>(std::max(1, setup.blocks));
  evict_quarters = true;
}

core::BlockName SimTier::KeyOf(const core::BlockName& name) const {
  if (plant_ != Plant::kPartialName) return name;
  const auto partial = partial_of_(name);
  if (!partial) return name;
  core::BlockName key;
  std::memcpy(key.bytes.data(), &partial->first, sizeof partial->first);
  std::memcpy(key.bytes.data() + 8, &partial->second, sizeof partial->second);
  return key;
}

bool SimTier::Put(const core::BlockName& name, std::vector<std::byte> bytes) {
  if (faults_->Fires("tier_off")) off = true;
  if (off) return false;
  if (Contains(name)) return true;
  if (unflushed_ >= setup_.most_pending || faults_->Fires("tier_full")) return false;
  ++unflushed_;
  durable_.erase(KeyOf(name));
  old_.erase(KeyOf(name));
  return kvcache::TestTier::Put(name, std::move(bytes));
}

void SimTier::Flush() {
  durable_.clear();
  for (const auto& [name, bytes] : blocks) durable_.insert(name);
  unflushed_ = 0;
}

base::TimePoint SimTier::ReadyAt() {
  base::Duration each = setup_.read_time;
  if (faults_->Fires("tier_slow")) each *= 1000;
  busy_until_ = std::max(busy_until_, clock_->Now()) + each;
  return busy_until_;
}

std::vector<std::byte> SimTier::Read(const core::BlockName& name) {
  const core::BlockName key = KeyOf(name);
  if (off || !blocks.contains(key) || faults_->Fires("tier_lossy")) return {};
  if (faults_->Fires("tier_torn")) {
    kvcache::TestTier::Erase(key);
    return {};
  }
  if (old_.contains(key)) ++found_after_kill_;
  if (plant_ == Plant::kStaleBlock) return blocks.begin()->second;  // Of any name.
  return blocks.at(key);
}

void SimTier::Erase(const core::BlockName& name) {
  // Else the tail of an earlier length would mostly be gone before it could be mistaken.
  if (plant_ != Plant::kPartialName) kvcache::TestTier::Erase(name);
}

void SimTier::Kill() {
  std::vector<core::BlockName> lost;
  for (const auto& [name, bytes] : blocks) {
    if (!durable_.contains(name)) lost.push_back(name);
  }
  for (const core::BlockName& name : lost) kvcache::TestTier::Erase(name);
  old_.clear();
  for (const auto& [name, bytes] : blocks) old_.insert(name);
  DropReads();
  unflushed_ = 0;
  off = false;
}

}  // namespace ropeway::sim
