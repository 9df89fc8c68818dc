// The order of what waits: ranks and aging.
#ifndef ROPEWAY_SCHEDULER_WAITING_QUEUE_H_
#define ROPEWAY_SCHEDULER_WAITING_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"
#include "policy/scheduling_policy.h"

namespace ropeway::scheduler {

// Long enough that the cost of a start (its blocks, its reads) is small against what it computes;
// short against a wait.
inline constexpr int32_t kMinRunSteps = 8;

// The position of a job in the order of one step.
struct Place {
  policy::Rank rank;
  uint64_t order = 0;   // Job::order.
  bool yields = false;  // Goes behind all that do not: its tenant has its share of the slots.
  bool aged = false;    // Goes before all that are not.
};

// The order of a step: jobs that do not yield go before jobs that do. Among equals, aged jobs come
// first, by arrival; then the policy's rank decides, then the arrival.
bool Before(const Place& a, const Place& b);

// A sequence of the engine core with its position.
struct Ranked : Place {
  core::Sequence* sequence = nullptr;
  bool leads = false;     // Other sequences wait for the prefix that it computes.
  bool contends = false;  // It decodes with a costly sampling, and some of these must rest.
  bool rests = false;     // It rests: it does not decode in this step.

  const core::Job* job() const { return sequence; }
};

// The queue of one step in the order in which its jobs may start: each an R, which is a Place and
// has job(). A heap: most steps look at the first few only. Thread rule: the scheduler's.
template <typename R>
class WaitingQueue {
 public:
  void Clear() { heap_.clear(); }
  // Throws std::bad_alloc.
  void Reserve(size_t count) {
    if (heap_.capacity() < count) heap_.reserve(2 * count);
  }
  // REQUIRES: reserved; Sort after the last one.
  void Add(const R& ranked) { heap_.push_back(ranked); }
  void Sort() { std::make_heap(heap_.begin(), heap_.end(), After); }

  bool empty() const { return heap_.empty(); }
  // The first job. REQUIRES: not empty.
  const R& front() const { return heap_.front(); }
  void Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), After);
    heap_.pop_back();
  }
  // Puts one back that was popped, perhaps to another position.
  void Push(const R& ranked) {
    heap_.push_back(ranked);
    std::push_heap(heap_.begin(), heap_.end(), After);
  }
  // Removes the job, if it is there. O(n).
  void Remove(const core::Job* job) {
    std::erase_if(heap_, [job](const R& ranked) { return ranked.job() == job; });
    Sort();
  }

  // Scheduled work may have raised ranks (under fairness, the next start belongs to another
  // tenant). Moves jobs from the front back to their present rank, until the first one's rank is
  // unchanged.
  void Resort(const policy::SchedulingPolicy& policy) {
    while (!heap_.empty()) {
      const policy::Rank rank = policy.RankOf(*heap_.front().job());
      if (heap_.front().aged || rank <= heap_.front().rank) return;
      std::pop_heap(heap_.begin(), heap_.end(), After);
      heap_.back().rank = rank;
      std::push_heap(heap_.begin(), heap_.end(), After);
    }
  }

 private:
  // The standard heap has its greatest element in front.
  static bool After(const R& a, const R& b) { return Before(b, a); }

  std::vector<R> heap_;
};

// Aging: requests past max_wait go first. Thread rule: the scheduler's.
class Aging {
 public:
  explicit Aging(base::Duration max_wait) : max_wait_(max_wait) {}

  // Reserves memory for a queue of `count`; throws std::bad_alloc.
  void Reserve(size_t count);

  // Sets SchedulingState::aged. Running jobs are aged if their prompt has had no chunk for
  // max_wait, or their decode has rested so long. In the queue, the oldest jobs past max_wait are
  // aged whose tenant is not above its share; together with the aged ones that run they take at
  // most half of `limit` slots (rounded up). REQUIRES: reserved.
  void Update(base::TimePoint now, int limit, const core::Jobs& running, const core::Jobs& queue);

  // The queued_since of a sequence that is preempted now: an aged one that has not run for
  // kMinRunSteps is past max_wait again at once.
  base::TimePoint QueuedSince(const core::Job& victim, base::TimePoint now) const {
    return victim.sched.aged ? now - max_wait_ : now;
  }

 private:
  const base::Duration max_wait_;
  std::vector<core::Job*> overdue_;  // Jobs of the queue past max_wait.
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_WAITING_QUEUE_H_
