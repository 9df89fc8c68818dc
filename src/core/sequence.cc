#include "core/sequence.h"

#include <algorithm>
#include <utility>

namespace ropeway::core {

Sequence::Sequence(CoreRequest core_request, uint64_t sequences_before)
    : Job(std::move(static_cast<JobRequest&>(core_request)), sequences_before),
      spec(std::move(core_request.spec)),
      cache_root(core_request.cache_root),
      long_rope(core_request.long_rope),
      retention(core_request.retention),
      context(std::move(core_request.context)),
      constraint(std::move(core_request.constraint)),
      ids_(std::move(core_request.prompt)) {
  kv.names = std::move(core_request.block_names);
  prompt_len = spec.prompt_len = static_cast<int32_t>(ids_.size());
  ids_.insert(ids_.end(), core_request.resume_ids.begin(), core_request.resume_ids.end());
  length = static_cast<int32_t>(ids_.size());
  min_tokens = spec.params.min_tokens;
  samples = SampleKindOf(spec);
  // A mask is applied to the whole row.
  if (constraint != nullptr) samples = std::max(samples, SampleKind::kPlain);
  std::sort(request.stop_ids.begin(), request.stop_ids.end());
}

PositionRange Sequence::left_to_pool() const {
  if (!spec.pooling) return {};
  const bool last = *spec.pooling == Pooling::kLast;
  const bool first = *spec.pooling == Pooling::kFirst;
  return {std::max(pooled, last ? prompt_len - 1 : 0), first ? 1 : prompt_len};
}

void Sequence::UseLongRope() {
  cache_root = LongRopeRoot(cache_root);
  long_rope = true;
  kv.names.clear();
  kv.parked = 0;
}

void Sequence::ReserveMask() {
  if (constraint == nullptr || constraint_run != nullptr) return;
  auto run = std::make_unique<ConstraintRun>();
  run->words.resize(constraint->mask_words());
  run->mask.words = run->words;
  run->state = constraint->Begin();
  constraint_run = std::move(run);
}

SampleKind SampleKindOf(const SampleSpec& spec) {
  const SamplingParams& p = spec.params;
  const bool draws = p.temperature > 0.0F;
  const bool orders = draws && (p.top_k > 0 || p.top_p < 1.0F || p.typical_p < 1.0F);
  if (orders || spec.num_logprobs > 0) return SampleKind::kOrdered;
  const bool adjusts = !p.logit_bias.empty() || p.min_tokens > 0 || p.repetition_penalty != 1.0F ||
                       p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
  return draws || adjusts || spec.num_logprobs == 0 ? SampleKind::kPlain : SampleKind::kLargest;
}

}  // namespace ropeway::core
