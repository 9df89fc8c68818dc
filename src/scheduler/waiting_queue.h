// The order of the waiting sequences: ranks, aging, and the wait that a new request can expect.
#ifndef ROPEWAY_SCHEDULER_WAITING_QUEUE_H_
#define ROPEWAY_SCHEDULER_WAITING_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"
#include "policy/output_predictor.h"
#include "policy/scheduling_policy.h"
#include "scheduler/step_cost.h"

namespace ropeway::scheduler {

// A sequence with its position in the order of one step.
struct Ranked {
  core::Sequence* sequence = nullptr;
  policy::Rank rank;
  bool aged = false;   // Goes before all that are not.
  bool leads = false;  // Other sequences wait for the prefix that it computes.
};

// The order of a step: aged sequences by arrival, then the policy's rank, then arrival.
bool Before(const Ranked& a, const Ranked& b);

// The queue of one step in the order in which its sequences may start. A heap: most steps look at
// the first few only. Thread rule: the scheduler's.
class WaitingQueue {
 public:
  void Clear() { heap_.clear(); }
  // Throws std::bad_alloc.
  void Reserve(size_t count);
  // REQUIRES: reserved; Sort after the last one.
  void Add(const Ranked& ranked) { heap_.push_back(ranked); }
  void Sort();

  bool empty() const { return heap_.empty(); }
  // The first sequence. REQUIRES: not empty.
  const Ranked& front() const { return heap_.front(); }
  void Pop();

  // Scheduled work may have raised ranks (under fairness, the next start belongs to another
  // tenant). Moves sequences from the front back to their present rank, until the first one's rank
  // is unchanged.
  void Resort(const policy::SchedulingPolicy& policy);

 private:
  std::vector<Ranked> heap_;
};

// Aging: requests past max_wait go first. Thread rule: the scheduler's.
class Aging {
 public:
  explicit Aging(base::Duration max_wait) : max_wait_(max_wait) {}

  // Reserves memory for a queue of `count`; throws std::bad_alloc.
  void Reserve(size_t count);

  // Sets SchedulingState::aged: for running sequences whose prompt has had no chunk for max_wait,
  // and in the queue for the oldest of those past max_wait, as many as half of `limit` slots
  // (rounded up) leave beside the aged ones that run. REQUIRES: reserved.
  void Update(base::TimePoint now, int limit, std::span<core::Sequence* const> running,
              std::span<core::Sequence* const> queue);

  // The queued_since of a sequence that is preempted now: an aged one that has not run for
  // kMinRunSteps is past max_wait again at once.
  base::TimePoint QueuedSince(const core::Sequence& victim, base::TimePoint now) const {
    return victim.sched.aged ? now - max_wait_ : now;
  }

 private:
  const base::Duration max_wait_;
  std::vector<core::Sequence*> overdue_;  // Those of the queue past max_wait.
};

// The guaranteed part of the work of each class, of 1; all 0: no shares.
using ClassParts = std::array<double, kNumPriorities>;

// The waiting work in units of cost, and the predicted wait. Outputs are predicted from completed
// requests. Thread rule: the scheduler's.
class QueueLoad {
 public:
  // `has_classes`: a higher class goes first, within its part if there are parts.
  QueueLoad(const StepCost* cost, bool has_classes, const ClassParts& parts)
      : cost_(cost), has_classes_(has_classes), parts_(parts) {}

  void Enter(core::Sequence* sequence);
  void Leave(core::Sequence* sequence);
  void OnFinished(const core::Sequence& sequence) {
    predictor_.Learn(sequence.request.max_tokens, sequence.generated());
  }

  // Ids of all waiting sequences together.
  int64_t tokens() const { return tokens_; }

  // Predicted queueing delay of a new request of the class, at the measured speed: the work of all
  // that goes before it, and the time until a slot is free. Of R running sequences the first ends
  // when 2 / R of their work is done; if a lower class runs, a slot is available by preemption.
  // With class parts, at most what its class takes with its part alone. 0 while no speed is
  // measured, or if fewer sequences wait before it than slots are free.
  double WaitSeconds(Priority priority, std::span<core::Sequence* const> running,
                     int free_slots) const;

 private:
  // Cost of the work that is left for the sequence.
  double Remaining(const core::Sequence& sequence) const;
  bool Ahead(Priority other, Priority own) const { return !has_classes_ || other <= own; }

  const StepCost* const cost_;
  const bool has_classes_;
  const ClassParts parts_;
  policy::OutputPredictor predictor_;
  std::array<double, kNumPriorities> waiting_{};  // Cost, by class.
  std::array<int, kNumPriorities> count_{};
  int64_t tokens_ = 0;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_WAITING_QUEUE_H_
