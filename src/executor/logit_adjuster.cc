#include "executor/logit_adjuster.h"

#include <algorithm>
#include <limits>

namespace ropeway {

LogitAdjuster::LogitAdjuster(int vocab_size)
    : row_(static_cast<size_t>(vocab_size)),
      generated_(static_cast<size_t>(vocab_size)),
      pending_(static_cast<size_t>(vocab_size)) {}

bool LogitAdjuster::NeedsIds(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
         params.frequency_penalty != 0.0F;
}

bool LogitAdjuster::InUse(const SamplingParams& params) {
  return !params.logit_bias.empty() || params.min_tokens > 0 || NeedsIds(params);
}

std::span<const float> LogitAdjuster::Adjust(std::span<const float> logits, const SampleSpec& spec,
                                             std::span<const TokenId> ids, int64_t position) {
  const SamplingParams& params = spec.params;
  if (!InUse(params)) return logits;
  std::copy(logits.begin(), logits.end(), row_.begin());
  for (const LogitBias& entry : params.logit_bias) {
    if (Known(entry.id)) row_[static_cast<size_t>(entry.id)] += entry.bias;
  }
  if (NeedsIds(params)) {
    const auto prompt =
        std::clamp<size_t>(static_cast<size_t>(std::max(spec.prompt_len, 0)), 0, ids.size());
    Penalise(params, ids.first(prompt), ids.subspan(prompt));
  }
  if (position - spec.prompt_len < params.min_tokens) {
    for (const TokenId id : spec.end_ids) {
      if (Known(id)) row_[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
    }
  }
  return row_;
}

void LogitAdjuster::Penalise(const SamplingParams& params, std::span<const TokenId> prompt,
                             std::span<const TokenId> generated) {
  const float repetition = params.repetition_penalty;
  if (repetition == 1.0F) prompt = {};
  for (const TokenId id : prompt) {
    if (Known(id)) pending_[static_cast<size_t>(id)] = 1;
  }
  for (const TokenId id : generated) {
    if (!Known(id)) continue;
    pending_[static_cast<size_t>(id)] = 1;
    ++generated_[static_cast<size_t>(id)];
  }
  for (const std::span<const TokenId> part : {prompt, generated}) {
    for (const TokenId id : part) {
      if (!Known(id) || pending_[static_cast<size_t>(id)] == 0) continue;
      float& logit = row_[static_cast<size_t>(id)];
      int32_t& times = generated_[static_cast<size_t>(id)];
      logit = logit > 0.0F ? logit / repetition : logit * repetition;
      if (times > 0) {
        const float frequency = params.frequency_penalty * static_cast<float>(times);
        logit = (logit - frequency) - params.presence_penalty;
      }
      times = 0;
      pending_[static_cast<size_t>(id)] = 0;
    }
  }
}

}  // namespace ropeway
