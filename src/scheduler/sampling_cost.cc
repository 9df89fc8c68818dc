#include "scheduler/sampling_cost.h"

#include <algorithm>

namespace ropeway::scheduler {

double SamplingCost::Sampling(const core::Job& job) const {
  if (job.sched.sample_seconds >= 0.0) return job.sched.sample_seconds;
  return std::max(0.0, of_kind_[static_cast<size_t>(job.samples)]);
}

double SamplingCost::Scoring(const core::Sequence& sequence) const {
  if (sequence.spec.num_prompt_logprobs < 0) return 0.0;
  if (sequence.sched.score_seconds >= 0.0) return sequence.sched.score_seconds;
  return std::max(0.0, scored_);
}

void SamplingCost::OnSampled(core::Job* job, double seconds) {
  Learn(seconds, &job->sched.sample_seconds, &of_kind_[static_cast<size_t>(job->samples)]);
}

void SamplingCost::OnScored(core::Sequence* sequence, double seconds) {
  Learn(seconds, &sequence->sched.score_seconds, &scored_);
}

void SamplingCost::Learn(double seconds, double* own, double* of_kind) {
  seconds = std::clamp(seconds, 0.0, kLongest);
  for (double* const mean : {own, of_kind}) {
    *mean = *mean < 0.0 ? seconds : *mean + (seconds - *mean) * kNewest;
  }
}

}  // namespace ropeway::scheduler
