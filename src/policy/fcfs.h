// First come, first served.
#ifndef ROPEWAY_POLICY_FCFS_H_
#define ROPEWAY_POLICY_FCFS_H_

#include "policy/scheduling_policy.h"

namespace ropeway {

// Ranks by arrival; the newest gives way. So what runs is always the oldest part of what is there,
// and the oldest sequence of all runs until it ends.
class FcfsPolicy final : public SchedulingPolicy {
 public:
  const char* name() const override { return "fcfs"; }
  void BeginStep(std::span<Sequence* const>, std::span<Sequence* const>, TimePoint) override {}
  Rank RankOf(const Sequence& sequence) const override;
  bool MayPreempt(const Sequence&, const Sequence&) const override { return false; }
  size_t PickVictim(std::span<const Sequence* const> candidates) const override;
  void OnScheduled(const Sequence&, const ScheduledWork&) override {}
  void OnFinished(const Sequence&, bool) override {}
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_FCFS_H_
