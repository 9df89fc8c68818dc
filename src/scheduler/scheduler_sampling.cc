// The part of Scheduler that learns from steps, and bounds what sampling costs in one.
#include <algorithm>
#include <tuple>

#include "scheduler/scheduler.h"

namespace ropeway::scheduler {
namespace {

constexpr double kNewestStep = 1.0 / 16;  // Weight of the newest in step_seconds_.

// What sampling may cost in a step: as much as half of its decodes, or kSamplingUnits if that is
// more.
constexpr double kSamplingPart = 0.5;
constexpr double kSamplingUnits = 8;
// Of that, a decode whose sampling costs less than this part never waits.
constexpr double kCheapPart = 1.0 / 128;

}  // namespace

void Scheduler::OnStep(base::Duration took, const core::StepResult& result) {
  const double seconds = base::ToSeconds(took);
  if (output_.num_tokens > 0) {
    step_seconds_ =
        step_seconds_ > 0.0 ? step_seconds_ + (seconds - step_seconds_) * kNewestStep : seconds;
  }
  // Padding does not count as work.
  if (!options_.learn_cost || output_.num_tokens == 0 || output_.num_padding_tokens > 0) return;
  const auto find_running = [this](uint64_t id) -> core::Sequence* {
    const auto it = std::find_if(running_.begin(), running_.end(),
                                 [id](const core::Sequence* s) { return s->id() == id; });
    return it != running_.end() ? *it : nullptr;
  };
  base::Duration all{};
  for (const core::Sampled& sampled : result.sampled) all += sampled.took;
  for (const core::Scored& scored : result.scored) all += scored.took;
  const base::Duration sampling = std::clamp(result.sampling, base::Duration{}, took);
  // Several workers sample at once: a second of theirs is less of the step.
  const double part =
      all > base::Duration{} ? std::min(1.0, base::ToSeconds(sampling) / base::ToSeconds(all)) : 0;
  for (const core::Sampled& sampled : result.sampled) {
    core::Sequence* const sequence = find_running(sampled.sequence);
    if (sequence != nullptr) sampling_.OnSampled(sequence, part * base::ToSeconds(sampled.took));
  }
  for (const core::Scored& scored : result.scored) {
    core::Sequence* const sequence = find_running(scored.sequence);
    if (sequence != nullptr) sampling_.OnScored(sequence, part * base::ToSeconds(scored.took));
  }
  // Few decodes are bound by memory: their speed does not tell how fast a queue is served.
  const bool busy = output_.num_tokens >= StepCost::kMinRows ||
                    2 * static_cast<int>(output_.items.size()) >= limit_;
  const double prompts = output_.num_tokens + cost_.weight() * positions_ - decode_cost_;
  if (busy) {
    load_.OnStep({.prompt = std::max(0.0, prompts), .output = decode_cost_}, took - sampling);
  }
  cost_.OnStep(output_.num_tokens, positions_, took - sampling, busy);
}

void Scheduler::RestCostly() {
  double decodes = 0;
  double sampling = 0;
  for (const Ranked& ranked : ranked_) {
    if (ranked.sequence->state != core::SequenceState::kDecoding) continue;
    decodes += cost_.Cost(ranked.sequence->kv.computed, 1);
    sampling += SamplingCostOf(*ranked.sequence);
  }
  const double most = std::max(kSamplingUnits, kSamplingPart * decodes);
  if (sampling <= most) return;
  costly_.clear();
  double left = most;
  for (Ranked& ranked : ranked_) {
    if (ranked.sequence->state != core::SequenceState::kDecoding) continue;
    const double units = SamplingCostOf(*ranked.sequence);
    if (units < kCheapPart * most) {
      left -= units;
    } else {
      costly_.push_back(&ranked);
    }
  }
  // In the order of classes and of tenants' service, and within a tenant in turn; before all, in
  // turn too, those that have rested for max_wait.
  std::sort(costly_.begin(), costly_.end(), [this](const Ranked* a, const Ranked* b) {
    const auto key = [this](const Ranked& r) {
      const core::Sequence& its = *r.sequence;
      return std::tuple(!r.aged, r.aged ? 0 : policy_->ClassOrderOf(its),
                        r.aged ? int64_t{0} : ServiceOf(its), its.sched.queued_since, its.order);
    };
    return key(*a) < key(*b);
  });
  for (size_t i = 0; i < costly_.size(); ++i) {
    left -= SamplingCostOf(*costly_[i]->sequence);
    costly_[i]->contends = true;
    costly_[i]->rests = left < 0 && i > 0;
  }
}

}  // namespace ropeway::scheduler
