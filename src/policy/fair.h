// Fair shares between tenants.
#ifndef ROPEWAY_POLICY_FAIR_H_
#define ROPEWAY_POLICY_FAIR_H_

#include "policy/scheduling_policy.h"
#include "policy/tenant_counters.h"

namespace ropeway {

// Ranks by what the tenant has had so far (TenantCounters): the one with the least goes first, its
// requests in the order of their arrival. The newest of the tenant with the most gives way. Ranks
// move within a step: what is scheduled counts at once, so that two tenants' requests start in
// turn. What is recomputed or cached counts for nothing; what was promoted counts, for it is
// service.
class FairPolicy final : public SchedulingPolicy {
 public:
  const char* name() const override { return "fair"; }
  void BeginStep(std::span<Sequence* const> queue, std::span<Sequence* const> running,
                 TimePoint now) override {
    counters_.BeginStep(queue, running, now);
  }
  Rank RankOf(const Sequence& sequence) const override { return {{counters_.Of(sequence)}}; }
  bool MayPreempt(const Sequence&, const Sequence&) const override { return false; }
  size_t PickVictim(std::span<const Sequence* const> candidates) const override;
  void OnScheduled(const Sequence& sequence, const ScheduledWork& work) override {
    counters_.Charge(sequence, work.prompt_tokens, work.output_tokens);
  }
  void OnFinished(const Sequence&, bool) override {}

 private:
  TenantCounters counters_;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_FAIR_H_
