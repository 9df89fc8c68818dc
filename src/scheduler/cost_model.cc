#include "scheduler/cost_model.h"

#include <algorithm>
#include <cmath>

namespace ropeway::scheduler {
namespace {

constexpr double kNewestStep = 1.0 / 16;  // Weight of the newest in step_seconds().

}  // namespace

int32_t StepCost::ChunkFor(int32_t start, int32_t wanted, double budget, double extra) const {
  const auto cost = [&](int32_t tokens) { return Cost(start, tokens) + extra * tokens; };
  if (wanted <= 0 || cost(1) > budget) return 0;
  // n + w (n start + n (n + 1) / 2) = budget, solved for n without a difference of near numbers.
  const double linear = 1.0 + extra + weight_ * (start + 0.5);
  const double n = 2.0 * budget / (linear + std::sqrt(linear * linear + 2.0 * weight_ * budget));
  auto chunk = static_cast<int32_t>(std::clamp<double>(n, 1.0, wanted));
  // Corrects rounding.
  while (chunk < wanted && cost(chunk + 1) <= budget) ++chunk;
  while (chunk > 1 && cost(chunk) > budget) --chunk;
  return chunk;
}

void StepCost::OnStep(int32_t rows, double attended_positions, base::Duration took, bool busy) {
  const double seconds = base::ToSeconds(took);
  if (rows <= 0 || seconds <= 0.0) return;
  if (busy) AddSpeed(rows + weight_ * attended_positions, seconds);
  if (rows >= min_rows_) Fit(attended_positions / rows, seconds / rows);
}

void StepCost::Fit(double x, double y) {
  if (sums_.steps >= kMinSteps / 2) {
    const double expected = a_ + b_ * x;
    if (y > kOutlier * expected || y < expected / kOutlier) {
      if (++outliers_ < kMaxOutliers) return;
      sums_ = {};
    }
  }
  outliers_ = 0;
  ++sums_.steps;
  sums_.n = kKeep * sums_.n + 1.0;
  sums_.x = kKeep * sums_.x + x;
  sums_.y = kKeep * sums_.y + y;
  sums_.xx = kKeep * sums_.xx + x * x;
  sums_.xy = kKeep * sums_.xy + x * y;

  const double mean_x = sums_.x / sums_.n;
  const double mean_y = sums_.y / sums_.n;
  const double variance = sums_.xx / sums_.n - mean_x * mean_x;
  if (sums_.steps >= kMinSteps && variance >= kMinSpread * kMinSpread) {
    const double slope = std::max(0.0, (sums_.xy / sums_.n - mean_x * mean_y) / variance);
    const double intercept = mean_y - slope * mean_x;
    // An intercept of 0 or less is noise: no weight follows from it.
    if (intercept > 0.0) weight_ = std::min(slope / intercept, kMaxWeight);
  }
  // The expected time of the next step: the mean, at the weight in use.
  a_ = mean_y / (1.0 + weight_ * mean_x);
  b_ = weight_ * a_;
}

void StepCost::AddSpeed(double cost, double seconds) {
  if (speed_seconds_ > 0.0 && cost < speed() * seconds / slowest_) {
    if (++slow_steps_ < kMaxOutliers) return;
    speed_cost_ = speed_seconds_ = 0.0;
  }
  slow_steps_ = 0;
  const double keep = std::exp(-seconds / kSpeedSeconds);
  speed_cost_ = keep * speed_cost_ + cost;
  speed_seconds_ = keep * speed_seconds_ + seconds;
}

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

std::optional<CostModel::BusyStep> CostModel::OnStep(const SchedulerOutput& step,
                                                     base::Duration took,
                                                     const core::StepResult& result,
                                                     std::span<core::Sequence* const> running,
                                                     int limit) {
  if (step.num_tokens == 0) return {};
  const double seconds = base::ToSeconds(took);
  step_seconds_ =
      step_seconds_ > 0.0 ? step_seconds_ + (seconds - step_seconds_) * kNewestStep : seconds;
  // Padding does not count as work.
  if (!learns_ || step.num_padding_tokens > 0) return {};
  const base::Duration computing = LearnSampling(result, took, running);
  const double prompts = step.num_tokens + step_.weight() * step.positions - step.decode_cost;
  // Few decodes are bound by memory: their speed does not tell how fast a queue is served.
  const bool busy =
      step.num_tokens >= step_.min_rows() || 2 * static_cast<int>(step.items.size()) >= limit;
  step_.OnStep(step.num_tokens, step.positions, computing, busy);
  if (!busy) return {};
  return BusyStep{{.prompt = std::max(0.0, prompts), .output = step.decode_cost}, computing};
}

base::Duration CostModel::LearnSampling(const core::StepResult& result, base::Duration took,
                                        std::span<core::Sequence* const> running) {
  const auto find = [running](uint64_t id) -> core::Sequence* {
    const auto it = std::find_if(running.begin(), running.end(),
                                 [id](const core::Sequence* s) { return s->id() == id; });
    return it != running.end() ? *it : nullptr;
  };
  base::Duration all{};
  for (const core::Sampled& sampled : result.sampled) all += sampled.took;
  for (const core::Scored& scored : result.scored) all += scored.took;
  const base::Duration sampling = std::clamp(result.sampling, base::Duration{}, took);
  // Several workers sample at once: a second of theirs is less of the step.
  const double part =
      all > base::Duration{} ? std::min(1.0, base::ToSeconds(sampling) / base::ToSeconds(all)) : 0;
  for (const core::Sampled& sampled : result.sampled) {
    core::Sequence* const sequence = find(sampled.sequence);
    if (sequence != nullptr) sampling_.OnSampled(sequence, part * base::ToSeconds(sampled.took));
  }
  for (const core::Scored& scored : result.scored) {
    core::Sequence* const sequence = find(scored.sequence);
    if (sequence != nullptr) sampling_.OnScored(sequence, part * base::ToSeconds(scored.took));
  }
  return took - sampling;
}

}  // namespace ropeway::scheduler
