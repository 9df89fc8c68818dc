// Classes high, medium and low, each with a guaranteed share.
#ifndef ROPEWAY_POLICY_PRIORITY_POLICY_H_
#define ROPEWAY_POLICY_PRIORITY_POLICY_H_

#include <array>

#include "policy/class_shares.h"
#include "policy/scheduling_policy.h"

namespace ropeway {

// Ranks by the place of the sequence's class in this step's order (ClassShares); within a class by
// arrival, or by the next part of a combined policy.
class PriorityPolicy final : public SchedulingPolicy {
 public:
  // `kv_is_kept`: what a victim has computed is found again when it resumes (prefix caching).
  PriorityPolicy(const std::array<int, kNumPriorities>& shares, bool strict, bool kv_is_kept)
      : shares_(shares, strict), kv_is_kept_(kv_is_kept) {}

  const char* name() const override { return "priority"; }
  void BeginStep(std::span<Sequence* const> queue, std::span<Sequence* const> running,
                 TimePoint now) override;
  Rank RankOf(const Sequence& sequence) const override {
    return {{shares_.PlaceOf(sequence.priority)}};
  }

  // A higher class may preempt a lower one while it is not above its share. Promoted sequences are
  // preempted for nobody.
  bool MayPreempt(const Sequence& urgent, const Sequence& victim) const override;

  // The lowest class, whatever this step's order; then what loses least: fewest positions to
  // compute again, fewest tokens generated, the newest. Those that were preempted kMaxPreemptions
  // times only where there are no others. The one that would be the last of this order is never the
  // victim where there is another: so one of the highest class always gets on, to its end.
  size_t PickVictim(std::span<const Sequence* const> candidates) const override;

  void OnScheduled(const Sequence& sequence, const ScheduledWork& work) override {
    if (!sequence.promoted) shares_.Charge(sequence.priority, work.cost);
  }
  void OnFinished(const Sequence&, bool) override {}

  const ClassShares& shares() const { return shares_; }

 private:
  // Whether `a` gives way before `b`.
  bool GivesWayBefore(const Sequence& a, const Sequence& b) const;

  ClassShares shares_;
  const bool kv_is_kept_;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_PRIORITY_POLICY_H_
