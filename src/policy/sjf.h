// Shortest job first.
#ifndef ROPEWAY_POLICY_SJF_H_
#define ROPEWAY_POLICY_SJF_H_

#include "policy/output_predictor.h"
#include "policy/scheduling_policy.h"

namespace ropeway {

// Ranks by the tokens that are still to be computed: those of its ids, less what is cached while it
// waits, and those that it is predicted to generate. The one with most of them gives way. Gives the
// shortest mean time to the end if the predictions are right; long requests pay for it, and the
// scheduler's promotion bounds how long.
class SjfPolicy final : public SchedulingPolicy {
 public:
  const char* name() const override { return "sjf"; }
  void BeginStep(std::span<Sequence* const>, std::span<Sequence* const>, TimePoint) override {}
  Rank RankOf(const Sequence& sequence) const override;
  bool MayPreempt(const Sequence&, const Sequence&) const override { return false; }
  size_t PickVictim(std::span<const Sequence* const> candidates) const override;
  void OnScheduled(const Sequence&, const ScheduledWork&) override {}
  void OnFinished(const Sequence& sequence, bool completed) override;

 private:
  OutputPredictor predictor_;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_SJF_H_
