#include "executor/sample_row.h"

#include <algorithm>
#include <limits>

namespace ropeway::executor {
namespace {

constexpr uint32_t kNoToken = 0;

// For the sampler, to which no words are no mask.
std::span<const uint32_t> MaskOf(const core::BatchItem& item) {
  if (item.mask == nullptr) return {};
  return item.mask->words.empty() ? std::span(&kNoToken, 1) : item.mask->words;
}

}  // namespace

std::vector<TokenId> AbsentRows(std::vector<TokenId> ids, int32_t vocab_size) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase_if(ids, [vocab_size](TokenId id) { return id < 0 || id >= vocab_size; });
  return ids;
}

core::StepResult PrepareResult(const core::Batch& batch, int hidden_size, int32_t tokens) {
  core::StepResult result;
  size_t sampled_rows = 0;
  size_t scored_rows = 0;
  for (const core::BatchItem& item : batch.items) {
    sampled_rows += item.sample ? 1 : 0;
    scored_rows += static_cast<size_t>(item.score_end - item.score_begin);
  }
  for (const core::BatchItem& item : batch.items) {
    if (item.pool_begin == item.pool_end) continue;
    core::Pooled& pooled = result.pooled.emplace_back();
    pooled.sequence = item.sequence;
    pooled.sum.assign(item.pool_sum.begin(), item.pool_sum.end());
    pooled.sum.resize(static_cast<size_t>(hidden_size));
  }
  result.sampled.reserve(sampled_rows);
  result.scored.reserve(scored_rows);
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

bool OnlyLargestWanted(const core::Batch& batch, const StepPlan& plan, int begin, int rows) {
  for (int row = begin; row < begin + rows; ++row) {
    const auto index = static_cast<size_t>(row);
    if (plan.output_rows()[index].sampled < 0) return false;
    const core::BatchItem& item = batch.items[static_cast<size_t>(plan.outputs().item[index])];
    if (WaitsForMask(item)) continue;
    if (item.mask != nullptr || !sampling::Sampler::NeedsOnlyLargest(*item.spec)) return false;
  }
  return true;
}

void ReportLargest(const core::Batch& batch, const StepPlan& plan, size_t index, float logit,
                   TokenId token, core::StepResult* result) {
  if (WaitsForMask(batch.items[static_cast<size_t>(plan.outputs().item[index])])) return;
  core::Sampled& sampled = result->sampled[static_cast<size_t>(plan.output_rows()[index].sampled)];
  sampled.token = token;
  sampled.invalid = !(logit > -std::numeric_limits<float>::infinity());
}

void FinishLogits(const kernels::Kernels& kernels, float soft_cap,
                  const std::vector<TokenId>& absent, int rows, int first, int cols, float* logits,
                  int64_t stride) {
  const auto begin = std::lower_bound(absent.begin(), absent.end(), first);
  const auto end = std::lower_bound(begin, absent.end(), first + cols);
  for (int row = 0; row < rows; ++row) {
    float* const own = logits + row * stride;
    if (soft_cap > 0.0F) kernels.soft_cap(own, soft_cap, cols);
    for (auto id = begin; id != end; ++id) {
      own[*id - first] = -std::numeric_limits<float>::infinity();
    }
  }
}

void SampleOrScore(const core::Batch& batch, const StepPlan& plan, size_t index,
                   std::span<const float> logits, const base::Clock& clock,
                   sampling::Sampler* sampler, core::StepResult* result) {
  const OutputRow& wanted = plan.output_rows()[index];
  const base::TimePoint begin = clock.Now();
  if (wanted.sampled < 0) {
    core::Scored& scored = result->scored[static_cast<size_t>(wanted.scored)];
    sampler->Score(logits, &scored);
    scored.took = clock.Now() - begin;
    return;
  }
  const core::BatchItem& item = batch.items[static_cast<size_t>(plan.outputs().item[index])];
  if (WaitsForMask(item)) return;
  core::Sampled& sampled = result->sampled[static_cast<size_t>(wanted.sampled)];
  const int64_t position = int64_t{plan.outputs().position[index]} + 1;
  sampler->Sample(logits, *item.spec, item.ids, position, MaskOf(item), &sampled);
  sampled.took = clock.Now() - begin;
}

}  // namespace ropeway::executor
