// The classes' guaranteed parts of the work.
#ifndef ROPEWAY_POLICY_CLASS_SHARES_H_
#define ROPEWAY_POLICY_CLASS_SHARES_H_

#include <array>

#include "ropeway/request.h"

namespace ropeway {

// What there is of one class when a step begins. Promoted sequences are left out: their work is on
// nobody's account.
struct ClassLoad {
  bool there = false;  // Something of it waits or runs.
  bool wants = false;  // Something of it waits or prefills: it could use more than it gets.
};

// Deficit accounting in units of cost (StepCost). Each step's cost is divided among the classes
// that are there, in proportion to their shares; one that wants nothing more is entitled to no more
// than it used (and what it owes), and the rest goes to the others: no share is lost, and none is
// saved up in quiet times. What a class used less than it was entitled to is added to its deficit,
// what it used more is taken off. So
//
//   - deficits add up to 0: each credit is some other class's debt. Where one lapses, the other
//     does, in proportion;
//   - a class that is not there has none, and one that wants nothing more has no credit;
//   - |deficit| <= kMaxDeficit steps' worth.
//
// A class is above its share once it is more than kBurst steps' worth ahead. The order of the
// classes in a step: those not above their share, high first; then those above it, the one that is
// least above first.
//
// The two constants, with steps of 20 to 50 ms. kBurst is what a class may take ahead of its share:
// 16 steps are 0.3 to 0.8 s of work, 1 to 3 % of 30 seconds, and 20 urgent prompts of 64 tokens at
// once do not put their class behind. kMaxDeficit is how long a class is paid back: a running
// sequence of a higher class is not preempted for a lower one, so that what a higher class started
// goes on after it is above its share, and the deficits swing by a part of the time that sequences
// run. 128 steps, 3 to 6 s, hold that swing, and limit how long a class that was held off may then
// hold off the others. So shares hold within 5 % over 30 seconds of backlog where sequences run for
// a few seconds; where they run for a large part of the 30 seconds, only over a longer time.
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

  // So much is computed for the class in this step.
  void Charge(Priority priority, double cost) { used_[Index(priority)] += cost; }

  int PlaceOf(Priority priority) const { return place_[Index(priority)]; }  // 0: first.
  // Whether the class is not above its share in this step. strict: true.
  bool MayClaim(Priority priority) const;
  // In units of cost; positive: it had less than its share.
  double deficit(Priority priority) const { return deficit_[Index(priority)]; }
  bool strict() const { return strict_; }

 private:
  using PerClass = std::array<double, kNumPriorities>;
  static size_t Index(Priority priority) { return static_cast<size_t>(priority); }

  void Settle(const std::array<ClassLoad, kNumPriorities>& loads);
  // What each class may have of `total`, at most its `demand`.
  PerClass Divide(double total, const PerClass& demand) const;
  void Balance();

  const bool strict_;
  PerClass share_{};
  PerClass deficit_{};
  PerClass used_{};  // In this step.
  std::array<ClassLoad, kNumPriorities> loads_{};
  std::array<int, kNumPriorities> place_{0, 1, 2};
  double step_cost_ = 0.0;  // Of a step, exponentially weighted.
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_CLASS_SHARES_H_
