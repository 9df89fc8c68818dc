// Limits on the cost of a step: for its prompts, for steps that belong to urgent prompts, and for
// sampling.
#ifndef ROPEWAY_SCHEDULER_PREFILL_BUDGET_H_
#define ROPEWAY_SCHEDULER_PREFILL_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/device_profile.h"
#include "core/sequence.h"
#include "policy/scheduling_policy.h"
#include "scheduler/cost_model.h"
#include "scheduler/tenant_table.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

struct PrefillBudgetOptions {
  double all = 1;         // A whole step, decodes included.
  double mixed = 0;       // Beside decodes: see StepOptions::mixed_prefill_budget.
  double long_ones = 64;  // Beside decodes: see SchedulingOptions::long_prefill_budget.
  // Of long ones, whatever the decodes cost.
  double spare = core::DeviceProfile{}.spare;
  // Urgent prompts go one after the other in steps of their own: the first gets what it needs, all
  // together at most this. More would make each of them wait for all, and saves little.
  double urgent = core::DeviceProfile{}.efficient_step;
};

// What the prefills of one step may cost, in units of StepCost. Three limits, each within the one
// before: for class high, for the other classes, and for the long prompts among those.
class PrefillBudget {
 public:
  explicit PrefillBudget(const PrefillBudgetOptions& options) : options_(options) {}

  // Begins a step with decodes of the given cost; 0: there are none. `after_urgent`: decodes were
  // left out of the steps before it, so prompts of class high are limited too. `step`: what the
  // step may cost with its decodes; whatever these cost, prompts of class high get
  // options.urgent, and the others beside decodes options.mixed.
  void Begin(double decode_cost, bool after_urgent = false,
             double step = std::numeric_limits<double>::infinity());
  // Begins a step that belongs to urgent prompts; the first needs `first_need`.
  void BeginUrgent(double decode_cost, double first_need);

  double For(bool high, bool is_long) const;
  void Spend(double cost, bool is_long);

 private:
  const PrefillBudgetOptions options_;
  double high_ = 0;
  double others_ = 0;
  double long_ = 0;
};

// A prompt with little left to compute is urgent if it is of class high (where the policy has
// classes) or its tenant's first turn.
// A step with an urgent prompt belongs to it: with the decodes of lower classes, or of the other
// tenants, beside it, the step would take several times as long. After kMaxSteps such steps in a
// row all decode again. Thread rule: the scheduler's.
class UrgentSteps {
 public:
  static constexpr int kMaxSteps = 4;

  // `max_chunk`: tokens of one prompt in one step; 0: no such limit. `most`: tokens left of an
  // urgent prompt. The policy must outlive it.
  UrgentSteps(const policy::SchedulingPolicy* policy, int max_chunk,
              int32_t most = core::DeviceProfile{}.urgent_prompt);

  int32_t most() const { return most_; }

  // Whether its prompt goes before other prompts: class high, or a tenant's first turn.
  bool GoesFirst(const core::Sequence& sequence) const {
    return sequence.sched.first_turn ||
           (policy_->has_classes() && sequence.request.priority == Priority::kHigh);
  }

  // Whether the first of the queue starts before a step's decodes are scheduled although it
  // preempts none. It does if it would be urgent as far as cached_hint knows, no other prompt of
  // its class is being computed, and some decode would leave the step to it.
  bool StartsFirst(const Ranked& first, std::span<const Ranked> running) const;

  // Chooses the owner of the next step. `running`: in rank order; `next`: the first of the queue,
  // or null.
  void Choose(std::span<const Ranked> running, const Ranked* next);

  // The urgent sequence that owns this step, or null.
  core::Sequence* owner() const { return owner_; }
  // Whether this sequence's decode is left out of the step.
  bool IsLeftBy(const Ranked& decode) const { return owner_ != nullptr && Leaves(decode, *owner_); }
  // Whether all decode in this step because kMaxSteps before it were urgent.
  bool paused() const { return paused_; }

 private:
  // Whether the sequence's prompt is urgent once `computed` positions of it are computed.
  bool IsUrgent(const core::Sequence& sequence, int32_t computed) const {
    return GoesFirst(sequence) && sequence.num_ids() - computed <= longest_;
  }
  bool Leaves(const Ranked& decode, const core::Sequence& urgent) const;
  bool AnyLeaves(std::span<const Ranked> running, const core::Sequence& urgent) const;

  const policy::SchedulingPolicy* const policy_;
  const int32_t most_;
  const int32_t longest_;  // At most a chunk.
  core::Sequence* owner_ = nullptr;
  int steps_ = 0;  // Urgent steps in a row.
  bool paused_ = false;
};

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

#endif  // ROPEWAY_SCHEDULER_PREFILL_BUDGET_H_
