// The queue in the order in which its sequences may start, for one step.
#ifndef ROPEWAY_SCHEDULER_WAITING_LINE_H_
#define ROPEWAY_SCHEDULER_WAITING_LINE_H_

#include <cstddef>
#include <vector>

#include "core/sequence.h"
#include "policy/scheduling_policy.h"

namespace ropeway {

// A sequence with its place in a step's order.
struct Ranked {
  Sequence* sequence = nullptr;
  Rank rank;
  bool promoted = false;  // It goes before all that are not.
  bool leads = false;     // Others wait for what it computes.
};

// The order of a step: promoted ones by arrival, then the policy's rank, then arrival.
bool Before(const Ranked& a, const Ranked& b);

// A heap: most steps look at the first few only. Thread rule: the scheduler's.
class WaitingLine {
 public:
  void Clear() { heap_.clear(); }
  // Throws std::bad_alloc.
  void Reserve(size_t count);
  // REQUIRES: reserved; Sort after the last.
  void Add(const Ranked& ranked) { heap_.push_back(ranked); }
  void Sort();

  bool empty() const { return heap_.empty(); }
  // The first. REQUIRES: not empty.
  const Ranked& front() const { return heap_.front(); }
  void Pop();

  // What was scheduled in this step may have raised ranks (fairness between tenants: the next start
  // is another one's). Moves those in front back to where they stand now, until the first one's
  // rank is as it was.
  void Settle(const SchedulingPolicy& policy);

 private:
  std::vector<Ranked> heap_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_WAITING_LINE_H_
