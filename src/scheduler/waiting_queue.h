// The order of the waiting sequences: ranks and aging.
#ifndef ROPEWAY_SCHEDULER_WAITING_QUEUE_H_
#define ROPEWAY_SCHEDULER_WAITING_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"
#include "policy/scheduling_policy.h"

namespace ropeway::scheduler {

// Long enough that the cost of a start (its blocks, its reads) is small against what it computes;
// short against a wait.
inline constexpr int32_t kMinRunSteps = 8;

// A sequence with its position in the order of one step.
struct Ranked {
  core::Sequence* sequence = nullptr;
  policy::Rank rank;
  bool yields = false;    // Goes behind all that do not: its tenant has its share of the slots.
  bool aged = false;      // Goes before all that are not.
  bool leads = false;     // Other sequences wait for the prefix that it computes.
  bool contends = false;  // It decodes, and of the costly samplings like its own some must rest.
  bool rests = false;     // It is one that rests: it does not decode in this step.
};

// The order of a step: those that do not yield before those that do; of each aged sequences by
// arrival, then the policy's rank, then arrival.
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
  // Puts one back that was popped, perhaps to another position.
  void Push(const Ranked& ranked);
  // Removes the sequence, if it is there. O(n).
  void Remove(const core::Sequence* sequence);

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
  // or whose decode has rested so long, and in the queue for the oldest of those past max_wait
  // whose tenant is not above its share, as many as half of `limit` slots (rounded up) leave beside
  // the aged ones that run. REQUIRES: reserved.
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

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_WAITING_QUEUE_H_
