#include "scheduler/sampling_cost.h"

#include <algorithm>

namespace ropeway::scheduler {

SamplingCost::Kind SamplingCost::KindOf(const core::SampleSpec& spec) {
  const SamplingParams& p = spec.params;
  const bool draws = p.temperature > 0.0F;
  const bool orders = draws && (p.top_k > 0 || p.top_p < 1.0F || p.typical_p < 1.0F);
  if (orders || spec.num_logprobs > 0) return Kind::kOrdered;
  const bool adjusts = !p.logit_bias.empty() || p.min_tokens > 0 || p.repetition_penalty != 1.0F ||
                       p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
  return draws || adjusts || spec.num_logprobs == 0 ? Kind::kPlain : Kind::kLargest;
}

double SamplingCost::Sampling(const core::Sequence& sequence) const {
  if (sequence.sched.sample_seconds >= 0.0) return sequence.sched.sample_seconds;
  return std::max(0.0, means_[static_cast<size_t>(KindOf(sequence.request.spec))]);
}

double SamplingCost::Scoring(const core::Sequence& sequence) const {
  if (sequence.request.spec.num_prompt_logprobs < 0) return 0.0;
  if (sequence.sched.score_seconds >= 0.0) return sequence.sched.score_seconds;
  return std::max(0.0, means_[static_cast<size_t>(Kind::kScored)]);
}

void SamplingCost::OnSampled(core::Sequence* sequence, double seconds) {
  Learn(seconds, &sequence->sched.sample_seconds, &Mean(KindOf(sequence->request.spec)));
}

void SamplingCost::OnScored(core::Sequence* sequence, double seconds) {
  Learn(seconds, &sequence->sched.score_seconds, &Mean(Kind::kScored));
}

void SamplingCost::Learn(double seconds, double* own, double* of_kind) {
  seconds = std::clamp(seconds, 0.0, kLongest);
  for (double* const mean : {own, of_kind}) {
    *mean = *mean < 0.0 ? seconds : *mean + (seconds - *mean) * kNewest;
  }
}

}  // namespace ropeway::scheduler
