// Which decodes rest in a step because sampling all of them would cost too much of it.
#ifndef ROPEWAY_SCHEDULER_SAMPLING_TURNS_H_
#define ROPEWAY_SCHEDULER_SAMPLING_TURNS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "policy/scheduling_policy.h"
#include "scheduler/cost_model.h"
#include "scheduler/tenant_table.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// In a step sampling may cost as much as half of the decodes, or kUnits if that is more. If it
// would cost more, those whose sampling is costly take turns: first those that have rested for
// max_wait, then by class and by their tenants' service, within a tenant in turn.
//
// Thread rule: the scheduler's.
class SamplingTurns {
 public:
  static constexpr double kPart = 0.5;
  static constexpr double kUnits = 8;
  // Of what sampling may cost: a decode whose sampling costs less than this part never rests.
  static constexpr double kCheapPart = 1.0 / 128;

  // `slots`: sequences that run at once. The others must outlive it.
  SamplingTurns(const CostModel* costs, const policy::SchedulingPolicy* policy,
                TenantTable* tenants, size_t slots)
      : costs_(costs), policy_(policy), tenants_(tenants) {
    costly_.reserve(2 * slots);  // Preempted in the step, and what took their slots.
  }

  // Sets `contends` and `rests` of the running sequences that decode.
  void Choose(std::span<Ranked> running);

 private:
  const CostModel* const costs_;
  const policy::SchedulingPolicy* const policy_;
  TenantTable* const tenants_;
  std::vector<Ranked*> costly_;  // Of the step; a member to avoid allocation.
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_SAMPLING_TURNS_H_
