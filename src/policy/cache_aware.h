// Longest cached prefix first.
#ifndef ROPEWAY_POLICY_CACHE_AWARE_H_
#define ROPEWAY_POLICY_CACHE_AWARE_H_

#include "policy/scheduling_policy.h"

namespace ropeway {

// Serves what is cached before it is evicted: of those that wait, the one with the most
// (cached tokens + kTokensPerSecond x seconds in the queue) goes first; those that run go before
// them, in the order of their arrival. The newest gives way.
class CacheAwarePolicy final : public SchedulingPolicy {
 public:
  // What a second in the queue counts for. A request whose whole 4,096-token prompt is cached so
  // passes only those that came at most 16 seconds before it: about half of the default --max-wait.
  // Much more, and nothing would be left but the order of arrival.
  static constexpr double kTokensPerSecond = 256.0;

  const char* name() const override { return "cache-aware"; }
  void BeginStep(std::span<Sequence* const>, std::span<Sequence* const>, TimePoint now) override {
    now_ = now;
  }
  Rank RankOf(const Sequence& sequence) const override;
  bool MayPreempt(const Sequence&, const Sequence&) const override { return false; }
  size_t PickVictim(std::span<const Sequence* const> candidates) const override;
  void OnScheduled(const Sequence&, const ScheduledWork&) override {}
  void OnFinished(const Sequence&, bool) override {}

 private:
  TimePoint now_{};
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_CACHE_AWARE_H_
