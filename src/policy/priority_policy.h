// Classes high, medium and low, each with a guaranteed share of the work.
#ifndef ROPEWAY_POLICY_PRIORITY_POLICY_H_
#define ROPEWAY_POLICY_PRIORITY_POLICY_H_

#include <array>

#include "policy/scheduling_policy.h"
#include "ropeway/request.h"

namespace ropeway::policy {

// The state of one class when a step begins. Aged jobs are left out: their work is charged to
// no class.
struct ClassLoad {
  bool active = false;  // Some job of the class waits or runs.
  // Some job waits, prefills or contends for sampling: the class could use more work.
  bool backlog = false;
};

// Deficit accounting in units of cost (StepCost). Each step's cost is divided among the active
// classes in proportion to their shares. A class without a backlog is entitled to no more than it
// used (and what it owes), and the rest goes to the others: no share is lost, and none is saved up
// in quiet times. A class's deficit grows by what it was entitled to and shrinks by what it used.
// So
//
//   - deficits add up to 0: each credit is another class's debt. Where one lapses, the other does,
//     in proportion;
//   - an inactive class has no deficit, and a class without a backlog has no credit;
//   - |deficit| <= kMaxDeficit mean steps.
//
// A class is above its share once it is more than kBurst mean steps ahead. Order of the classes in
// a step: those within their share, high first; then those above it, the least above first.
//
// The constants assume steps of 20 to 50 ms. kBurst is how far a class may run ahead: 16 steps are
// 0.3 to 0.8 s of work, 1 to 3 % of 30 seconds, and 20 urgent prompts of 64 tokens at once stay
// within it. kMaxDeficit limits how long a class is paid back. A lower class never preempts a
// higher one, so what a higher class started runs on after the class is above its share, and the
// deficits swing by a part of the sequences' run time. 128 steps, 3 to 6 s, cover that swing and
// limit how long a class that was held off may then hold off the others. Shares hold within 5 %
// over 30 seconds of backlog where sequences run for a few seconds; where they run for a large part
// of the 30 seconds, only over a longer time.
//
// Thread rule: the engine thread.
class ClassShares {
 public:
  static constexpr double kBurst = 16.0;
  static constexpr double kMaxDeficit = 128.0;

  // `shares` in any unit, each above 0. `strict`: no accounting; always high, medium, low.
  ClassShares(const std::array<int, kNumPriorities>& shares, bool strict);

  // Settles the last step and fixes the order for this one.
  void BeginStep(const std::array<ClassLoad, kNumPriorities>& loads);

  // Charges work of this step to the class.
  void Charge(Priority priority, double cost) { used_[Index(priority)] += cost; }

  // The position of the class in this step's order; 0: first.
  int OrderOf(Priority priority) const { return order_[Index(priority)]; }
  // Whether the class is not above its share in this step. strict: true.
  bool WithinShare(Priority priority) const;
  // In units of cost; positive: the class had less than its share.
  double deficit(Priority priority) const { return deficit_[Index(priority)]; }
  bool strict() const { return strict_; }
  // The shares of 1; strict: none.
  ClassParts Parts() const;

 private:
  using PerClass = ClassParts;
  static size_t Index(Priority priority) { return static_cast<size_t>(priority); }

  void Settle(const std::array<ClassLoad, kNumPriorities>& loads);
  // Divides `total` by shares; no class gets more than its `demand`.
  PerClass Divide(double total, const PerClass& demand) const;
  void Balance();

  const bool strict_;
  PerClass share_{};
  PerClass deficit_{};
  PerClass used_{};  // In this step.
  std::array<ClassLoad, kNumPriorities> loads_{};
  std::array<int, kNumPriorities> order_{0, 1, 2};
  double step_cost_ = 0.0;  // Exponentially weighted mean cost of a step.
};

// Ranks by the order of the job's class in this step (ClassShares); within a class by arrival,
// or by the next part of a combined policy.
class PriorityPolicy final : public SchedulingPolicy {
 public:
  // `kv_is_kept`: a victim finds what it has computed again when it resumes (prefix caching).
  PriorityPolicy(const std::array<int, kNumPriorities>& shares, bool strict, bool kv_is_kept)
      : shares_(shares, strict), kv_is_kept_(kv_is_kept) {}

  const char* name() const override { return "priority"; }
  void BeginStep(const core::Jobs& queue, const core::Jobs& running, base::TimePoint now) override;
  Rank RankOf(const core::Job& job) const override {
    return {{shares_.OrderOf(job.request.priority)}};
  }

  // A higher class may preempt a lower one while it is within its share. Aged sequences are not
  // preempted.
  bool MayPreempt(const core::Sequence& urgent, const core::Sequence& victim) const override;

  // The lowest class, whatever this step's order; then the smallest loss: fewest positions to
  // recompute, fewest tokens generated, the newest. Sequences preempted kMaxPreemptions times only
  // if there are no others. The candidate that would be last in this order is never the victim
  // while there is another, so one sequence of the highest class always runs to its end.
  size_t PickVictim(std::span<const core::Sequence* const> candidates) const override;

  bool has_classes() const override { return true; }
  ClassParts class_parts() const override { return shares_.Parts(); }
  int ClassOrderOf(const core::Job& job) const override {
    return shares_.OrderOf(job.request.priority);
  }

  void OnScheduled(const core::Job& job, const ScheduledWork& work) override {
    if (!job.sched.aged) shares_.Charge(job.request.priority, work.cost);
  }

  const ClassShares& shares() const { return shares_; }

 private:
  // Whether `a` is a better victim than `b`.
  bool IsBetterVictim(const core::Sequence& a, const core::Sequence& b) const;

  ClassShares shares_;
  const bool kv_is_kept_;
};

}  // namespace ropeway::policy

#endif  // ROPEWAY_POLICY_PRIORITY_POLICY_H_
