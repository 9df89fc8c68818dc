#include "scheduler/waiting_queue.h"

#include <algorithm>

namespace ropeway::scheduler {
bool Before(const Place& a, const Place& b) {
  if (a.yields != b.yields) return b.yields;
  if (a.aged != b.aged) return a.aged;
  if (!a.aged && a.rank != b.rank) return a.rank < b.rank;
  return a.order < b.order;
}

void Aging::Reserve(size_t count) {
  if (overdue_.capacity() < count) overdue_.reserve(2 * count);
}

void Aging::Update(base::TimePoint now, int limit, const core::Jobs& running,
                   const core::Jobs& queue) {
  const auto overdue = [&](const core::Job& job) {
    return now - job.sched.queued_since >= max_wait_;
  };
  auto left = static_cast<ptrdiff_t>((limit + 1) / 2);
  for (core::Job& job : running) {
    // A prompt without a chunk, or a decode without its token: others had all of the budget.
    const bool waits = job.state == core::SequenceState::kPrefilling || job.sched.contends;
    if (waits && overdue(job)) job.sched.aged = true;
    if (job.sched.aged) --left;
  }
  overdue_.clear();
  for (core::Job& job : queue) {
    job.sched.aged = false;
    if (overdue(job) && !job.sched.above_share) overdue_.push_back(&job);
  }
  left = std::clamp<ptrdiff_t>(left, 0, static_cast<ptrdiff_t>(overdue_.size()));
  std::nth_element(overdue_.begin(), overdue_.begin() + left, overdue_.end(),
                   [](const core::Job* a, const core::Job* b) { return a->order < b->order; });
  for (ptrdiff_t i = 0; i < left; ++i) overdue_[static_cast<size_t>(i)]->sched.aged = true;
}

}  // namespace ropeway::scheduler
