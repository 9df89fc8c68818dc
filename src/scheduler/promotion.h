// Who has waited so long that he goes before all that came later.
#ifndef ROPEWAY_SCHEDULER_PROMOTION_H_
#define ROPEWAY_SCHEDULER_PROMOTION_H_

#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"

namespace ropeway {

// Thread rule: the scheduler's.
class Promotion {
 public:
  explicit Promotion(Duration max_wait) : max_wait_(max_wait) {}

  // Makes room for a queue of so many; throws std::bad_alloc.
  void Reserve(size_t count);

  // Sets Sequence::promoted: of the running ones also for those whose prompt has had no chunk for
  // max_wait, and in the queue for the oldest of those that have waited so long, as many as half
  // of `limit` places (rounded up) leave beside the promoted ones that run. REQUIRES: reserved.
  void Choose(TimePoint now, int limit, std::span<Sequence* const> running,
              std::span<Sequence* const> queue);

  // Since when a sequence has waited that gives way now: what was promoted and has not run its
  // least is so again.
  TimePoint QueuedSince(const Sequence& victim, TimePoint now) const {
    return victim.promoted ? now - max_wait_ : now;
  }

 private:
  const Duration max_wait_;
  std::vector<Sequence*> overdue_;  // Those of the queue that have waited their time out.
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_PROMOTION_H_
