// Sequences of like length together.
#ifndef ROPEWAY_POLICY_LENGTH_BALANCE_H_
#define ROPEWAY_POLICY_LENGTH_BALANCE_H_

#include "policy/scheduling_policy.h"

namespace ropeway {

// Keeps the lengths in a batch alike, as classic batching wants it, where a batch takes as long as
// its longest member. Those that run go first, in the order of their arrival. A waiting one ranks
// by its distance
//
//     | log2(its ids) - log2(reference) | - seconds in the queue / kSecondsPerDoubling, at least 0
//
// in buckets of a kBuckets-th of a doubling; equal ones by arrival. The reference is the mean
// length of those that run, or the length of the oldest in the queue where none runs. The newest
// gives way.
class LengthBalancePolicy final : public SchedulingPolicy {
 public:
  static constexpr double kBuckets = 8.0;
  // Lengths lie at most 2^17 apart, so that the strangest one has made up its distance after 17
  // seconds of waiting: about half of the default --max-wait.
  static constexpr double kSecondsPerDoubling = 1.0;

  const char* name() const override { return "length-balance"; }
  void BeginStep(std::span<Sequence* const> queue, std::span<Sequence* const> running,
                 TimePoint now) override;
  Rank RankOf(const Sequence& sequence) const override;
  bool MayPreempt(const Sequence&, const Sequence&) const override { return false; }
  size_t PickVictim(std::span<const Sequence* const> candidates) const override;
  void OnScheduled(const Sequence&, const ScheduledWork&) override {}
  void OnFinished(const Sequence&, bool) override {}

 private:
  double reference_ = 0.0;  // log2 of ids.
  TimePoint now_{};
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_LENGTH_BALANCE_H_
