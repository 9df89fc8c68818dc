// The scheduler's own check of its lists, for tests and the engine's integrity check.
#ifndef ROPEWAY_SCHEDULER_LIST_INTEGRITY_H_
#define ROPEWAY_SCHEDULER_LIST_INTEGRITY_H_

#include <span>

#include "core/sequence.h"
#include "ropeway/status.h"

namespace ropeway {

// What a scheduler holds, as it counts it.
struct SchedulerLists {
  std::span<Sequence* const> queue;
  std::span<Sequence* const> running;
  int preempted = 0;    // Of the queue.
  int fetching = 0;     // Of the running ones.
  int max_running = 0;  // At most so many run.
};

// Each sequence's state fits the list it is on, nobody is on two, only running ones hold blocks,
// and the counts are right. kInternal says what is not so.
Status CheckLists(const SchedulerLists& lists);

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_LIST_INTEGRITY_H_
