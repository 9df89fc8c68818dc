#include "policy/priority_policy.h"

#include <tuple>

#include "policy/preemption_limits.h"

namespace ropeway {

void PriorityPolicy::BeginStep(std::span<Sequence* const> queue, std::span<Sequence* const> running,
                               TimePoint /*now*/) {
  std::array<ClassLoad, kNumPriorities> loads{};
  const auto count = [&loads](const Sequence& sequence, bool wants) {
    if (sequence.promoted) return;
    ClassLoad& load = loads[static_cast<size_t>(sequence.priority)];
    load.there = true;
    load.wants |= wants;
  };
  for (const Sequence* sequence : queue) count(*sequence, true);
  for (const Sequence* sequence : running) {
    count(*sequence, sequence->state == SequenceState::kPrefilling);
  }
  shares_.BeginStep(loads);
}

bool PriorityPolicy::MayPreempt(const Sequence& urgent, const Sequence& victim) const {
  return urgent.priority < victim.priority && !victim.promoted && shares_.MayClaim(urgent.priority);
}

bool PriorityPolicy::GivesWayBefore(const Sequence& a, const Sequence& b) const {
  if (a.priority != b.priority) return a.priority > b.priority;
  const int32_t lost_a = kv_is_kept_ ? 0 : a.computed;
  const int32_t lost_b = kv_is_kept_ ? 0 : b.computed;
  // Of equal ones the newest: the orders stand the other way round.
  return std::tuple(lost_a, a.generated(), b.order) < std::tuple(lost_b, b.generated(), a.order);
}

size_t PriorityPolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  size_t last = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (GivesWayBefore(*candidates[last], *candidates[i])) last = i;
  }
  size_t victim = last;  // Where it is alone.
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i == last) continue;
    const bool capped = candidates[i]->preemptions >= kMaxPreemptions;
    const bool victim_capped = candidates[victim]->preemptions >= kMaxPreemptions;
    const bool better = capped != victim_capped
                            ? victim_capped
                            : GivesWayBefore(*candidates[i], *candidates[victim]);
    if (victim == last || better) victim = i;
  }
  return victim;
}

}  // namespace ropeway
