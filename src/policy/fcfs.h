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
  int64_t Rank(const Sequence& sequence, TimePoint now) const override;
  size_t PickVictim(std::span<const Sequence* const> candidates) const override;
  void OnScheduled(const Sequence& sequence, int32_t tokens) override;
  void OnFinished(const Sequence& sequence) override;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_FCFS_H_
