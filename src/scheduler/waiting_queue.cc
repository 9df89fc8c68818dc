#include "scheduler/waiting_queue.h"

#include <algorithm>

namespace ropeway::scheduler {
namespace {

// The standard heap has its greatest element in front.
bool After(const Ranked& a, const Ranked& b) { return Before(b, a); }

}  // namespace

bool Before(const Ranked& a, const Ranked& b) {
  if (a.yields != b.yields) return b.yields;
  if (a.aged != b.aged) return a.aged;
  if (!a.aged && a.rank != b.rank) return a.rank < b.rank;
  return a.sequence->order < b.sequence->order;
}

void WaitingQueue::Reserve(size_t count) {
  if (heap_.capacity() < count) heap_.reserve(2 * count);
}

void WaitingQueue::Sort() { std::make_heap(heap_.begin(), heap_.end(), After); }

void WaitingQueue::Pop() {
  std::pop_heap(heap_.begin(), heap_.end(), After);
  heap_.pop_back();
}

void WaitingQueue::Push(const Ranked& ranked) {
  heap_.push_back(ranked);
  std::push_heap(heap_.begin(), heap_.end(), After);
}

void WaitingQueue::Remove(const core::Sequence* sequence) {
  std::erase_if(heap_, [sequence](const Ranked& ranked) { return ranked.sequence == sequence; });
  Sort();
}

void WaitingQueue::Resort(const policy::SchedulingPolicy& policy) {
  while (!heap_.empty()) {
    const policy::Rank rank = policy.RankOf(*heap_.front().sequence);
    if (heap_.front().aged || rank <= heap_.front().rank) return;
    std::pop_heap(heap_.begin(), heap_.end(), After);
    heap_.back().rank = rank;
    std::push_heap(heap_.begin(), heap_.end(), After);
  }
}

void Aging::Reserve(size_t count) {
  if (overdue_.capacity() < count) overdue_.reserve(2 * count);
}

void Aging::Update(base::TimePoint now, int limit, std::span<core::Sequence* const> running,
                   std::span<core::Sequence* const> queue) {
  const auto overdue = [&](const core::Sequence& s) {
    return now - s.sched.queued_since >= max_wait_;
  };
  auto left = static_cast<ptrdiff_t>((limit + 1) / 2);
  for (core::Sequence* sequence : running) {
    // A prompt without a chunk, or a decode without its token: others had all of the budget.
    const bool waits =
        sequence->state == core::SequenceState::kPrefilling || sequence->sched.contends;
    if (waits && overdue(*sequence)) sequence->sched.aged = true;
    if (sequence->sched.aged) --left;
  }
  overdue_.clear();
  for (core::Sequence* sequence : queue) {
    sequence->sched.aged = false;
    if (overdue(*sequence) && !sequence->sched.above_share) overdue_.push_back(sequence);
  }
  left = std::clamp<ptrdiff_t>(left, 0, static_cast<ptrdiff_t>(overdue_.size()));
  std::nth_element(
      overdue_.begin(), overdue_.begin() + left, overdue_.end(),
      [](const core::Sequence* a, const core::Sequence* b) { return a->order < b->order; });
  for (ptrdiff_t i = 0; i < left; ++i) overdue_[static_cast<size_t>(i)]->sched.aged = true;
}

}  // namespace ropeway::scheduler
