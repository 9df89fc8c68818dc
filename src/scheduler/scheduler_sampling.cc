// The part of Scheduler that learns from steps, and bounds what sampling costs in one.
#include <algorithm>
#include <tuple>

#include "scheduler/scheduler.h"

namespace ropeway::scheduler {
namespace {

// What sampling may cost in a step: as much as half of its decodes, or kSamplingUnits if that is
// more.
constexpr double kSamplingPart = 0.5;
constexpr double kSamplingUnits = 8;
// Of that, a decode whose sampling costs less than this part never waits.
constexpr double kCheapPart = 1.0 / 128;

}  // namespace

void Scheduler::OnStep(base::Duration took, const core::StepResult& result) {
  const auto busy = costs_.OnStep(output_, took, result, running_, limit_);
  if (busy) load_.OnStep(busy->work, busy->took);
}

void Scheduler::RestCostly() {
  double decodes = 0;
  double sampling = 0;
  for (const Ranked& ranked : ranked_) {
    if (ranked.sequence->state != core::SequenceState::kDecoding) continue;
    decodes += costs_.step().Cost(ranked.sequence->kv.computed, 1);
    sampling += costs_.Sampling(*ranked.sequence);
  }
  const double most = std::max(kSamplingUnits, kSamplingPart * decodes);
  if (sampling <= most) return;
  costly_.clear();
  double left = most;
  for (Ranked& ranked : ranked_) {
    if (ranked.sequence->state != core::SequenceState::kDecoding) continue;
    const double units = costs_.Sampling(*ranked.sequence);
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
                        r.aged ? int64_t{0} : tenants_.ServiceOf(its), its.sched.queued_since,
                        its.order);
    };
    return key(*a) < key(*b);
  });
  for (size_t i = 0; i < costly_.size(); ++i) {
    left -= costs_.Sampling(*costly_[i]->sequence);
    costly_[i]->contends = true;
    costly_[i]->rests = left < 0 && i > 0;
  }
}

}  // namespace ropeway::scheduler
