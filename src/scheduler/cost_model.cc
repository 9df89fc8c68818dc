#include "scheduler/cost_model.h"

#include <algorithm>

namespace ropeway::scheduler {
namespace {

constexpr double kNewestStep = 1.0 / 16;  // Weight of the newest in step_seconds().

}  // namespace

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
      step.num_tokens >= StepCost::kMinRows || 2 * static_cast<int>(step.items.size()) >= limit;
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
