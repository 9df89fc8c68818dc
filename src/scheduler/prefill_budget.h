// What the prefills of one step may cost.
#ifndef ROPEWAY_SCHEDULER_PREFILL_BUDGET_H_
#define ROPEWAY_SCHEDULER_PREFILL_BUDGET_H_

namespace ropeway {

struct PrefillBudgetOptions {
  double all = 1;         // Of a whole step, decodes included.
  double mixed = 0;       // Beside decodes: see SchedulerOptions::mixed_prefill_budget.
  double long_ones = 64;  // Beside decodes: see SchedulerOptions::long_prefill_budget.
};

// Kept in units of StepCost. Three parts, each within the one before: what any class high may
// spend, what the others may, and of that the long ones.
class PrefillBudget {
 public:
  // Urgent prompts take turns in steps of their own: the first gets what it needs, others with it
  // so much together. More would make each of them wait for all, and saves little.
  static constexpr double kUrgent = 64;

  explicit PrefillBudget(const PrefillBudgetOptions& options) : options_(options) {}

  // Begins a step whose decodes cost so much; 0: there are none. `after_urgent`: decodes were left
  // out of the steps before it, so that those of a class high are held short too.
  void Begin(double decode_cost, bool after_urgent = false);
  // Begins a step that belongs to urgent prompts, the first of which needs so much.
  void BeginUrgent(double decode_cost, double first_need);

  double For(bool high, bool is_long) const;
  void Spend(double cost, bool is_long);

 private:
  const PrefillBudgetOptions options_;
  double high_ = 0;
  double others_ = 0;
  double long_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_PREFILL_BUDGET_H_
