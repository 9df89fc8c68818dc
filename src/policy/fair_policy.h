// Fair shares between tenants.
#ifndef ROPEWAY_POLICY_FAIR_POLICY_H_
#define ROPEWAY_POLICY_FAIR_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "policy/scheduling_policy.h"

namespace ropeway::policy {

// The virtual token counters of Sheng et al., "Fairness in Serving Large Language Models"
// (OSDI 2024), weighted: a tenant's counter grows by
//
//     max(kPromptToken x prompt tokens + kOutputToken x output tokens + extra,
//         kOutputToken x held) / its weight
//
// for what is computed for it. `extra` is what attention and sampling cost beside the tokens
// themselves. `held` is the slots' worth of KV blocks that the sequence holds meanwhile: a sequence
// that fills half the pool is charged as if it held half the slots. Some sequences compute nothing:
// a decode that rests because its sampling is costly, a prompt that waits for others of its tenant,
// and a sequence that fetches. They are charged for their slot, or for what they hold if that is
// more.
//
// The tenant with the least counter is served first. A tenant that returns to the queue is lifted
// (section 4 of the paper) to the least counter of the tenants queued before or, if there were
// none, to the counter of the last one that left the queue: time without requests earns no credit.
// A counter is never lowered.
//
// Memory is bounded: a sweep forgets each idle tenant (no job waits or runs) that would be
// lifted anyway, and keeps the kMaxIdleTenants other idle ones with the most service. A sweep runs
// before the map has grown by half.
//
// Thread rule: the engine thread.
class TenantCounters {
 public:
  static constexpr double kPromptToken = 1.0;
  static constexpr double kOutputToken = 2.0;
  // Counter units per token: one token at the largest weight (100) still counts 655.
  static constexpr double kUnitsPerToken = 65536.0;
  static constexpr size_t kMaxIdleTenants = 10'000;

  // Begins a step, given all jobs; lifts the tenants that returned.
  void BeginStep(const core::Jobs& queue, const core::Jobs& running, base::TimePoint now);

  // The counter of the job's tenant; 0 for a tenant that no BeginStep has seen.
  int64_t Of(const core::Job& job) const;

  // Charges what is computed for the job, or held while it rests; nothing where it is computed
  // again.
  void Charge(const core::Job& job, const ScheduledWork& work);

  size_t size() const { return tenants_.size(); }

 private:
  struct Tenant {
    int64_t counter = 0;
    // The last step in which the tenant had
    uint64_t active = 0;         // a job, waiting or running;
    uint64_t queued = 0;         // a job in the queue;
    uint64_t queued_before = 0;  // a job that was also queued in the step before.
  };

  bool WasQueued(const core::Job& job) const;
  void Sweep();

  std::unordered_map<std::string, Tenant> tenants_;
  std::vector<Tenant*> in_queue_;      // In the last BeginStep, each once.
  std::vector<Tenant*> were_queued_;   // In the one before; a member to avoid allocation in a step.
  const Tenant* last_left_ = nullptr;  // The last one that left the queue.
  int64_t level_ = 0;                  // Returning tenants are lifted to it. Never falls.
  uint64_t step_ = 0;
  uint64_t next_number_ = 0;  // Above the numbers of all that came before the last BeginStep.
  base::TimePoint last_step_{};
  size_t sweep_at_ = 64;
};

// Ranks by the service of the job's tenant so far (TenantCounters): the least goes first, its
// requests by arrival. The newest of the tenant with the most is preempted. Ranks move within a
// step: scheduled work counts at once, so that two tenants' requests start in turn. Recomputed and
// cached tokens are not charged; aged requests are.
class FairPolicy final : public SchedulingPolicy {
 public:
  const char* name() const override { return "fair"; }
  void BeginStep(const core::Jobs& queue, const core::Jobs& running, base::TimePoint now) override {
    counters_.BeginStep(queue, running, now);
  }
  Rank RankOf(const core::Job& job) const override { return {{counters_.Of(job)}}; }
  size_t PickVictim(std::span<const core::Sequence* const> candidates) const override;
  bool is_fair() const override { return true; }
  int64_t ServiceOf(const core::Job& job) const override { return counters_.Of(job); }
  void OnScheduled(const core::Job& job, const ScheduledWork& work) override {
    counters_.Charge(job, work);
  }

 private:
  TenantCounters counters_;
};

}  // namespace ropeway::policy

#endif  // ROPEWAY_POLICY_FAIR_POLICY_H_
