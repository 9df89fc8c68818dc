#include "scheduler/waiting_queue.h"

#include <algorithm>

namespace ropeway::scheduler {
namespace {

// The standard heap has its greatest element in front.
bool After(const Ranked& a, const Ranked& b) { return Before(b, a); }

}  // namespace

bool Before(const Ranked& a, const Ranked& b) {
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
    // A prompt without a chunk: other sequences had all of the budget.
    if (sequence->state == core::SequenceState::kPrefilling && overdue(*sequence))
      sequence->sched.aged = true;
    if (sequence->sched.aged) --left;
  }
  overdue_.clear();
  for (core::Sequence* sequence : queue) {
    sequence->sched.aged = false;
    if (overdue(*sequence)) overdue_.push_back(sequence);
  }
  left = std::clamp<ptrdiff_t>(left, 0, static_cast<ptrdiff_t>(overdue_.size()));
  std::nth_element(
      overdue_.begin(), overdue_.begin() + left, overdue_.end(),
      [](const core::Sequence* a, const core::Sequence* b) { return a->order < b->order; });
  for (ptrdiff_t i = 0; i < left; ++i) overdue_[static_cast<size_t>(i)]->sched.aged = true;
}

double QueueLoad::Remaining(const core::Sequence& sequence) const {
  const int32_t output = predictor_.Remaining(sequence);
  const int32_t computed = sequence.running() ? sequence.kv.computed : sequence.sched.cached_hint;
  const int32_t ids = std::max(0, sequence.num_ids() - computed);
  return cost_->Cost(computed, ids) + cost_->Cost(sequence.num_ids(), output);
}

void QueueLoad::Enter(core::Sequence* sequence) {
  const auto its_class = static_cast<size_t>(sequence->request.priority);
  sequence->sched.queued_cost = Remaining(*sequence);
  waiting_[its_class] += sequence->sched.queued_cost;
  ++count_[its_class];
  tokens_ += sequence->num_ids();
}

void QueueLoad::Leave(core::Sequence* sequence) {
  const auto its_class = static_cast<size_t>(sequence->request.priority);
  waiting_[its_class] -= sequence->sched.queued_cost;
  if (--count_[its_class] == 0) waiting_[its_class] = 0;  // Drop what rounding has left.
  tokens_ -= sequence->num_ids();
}

double QueueLoad::WaitSeconds(Priority priority, std::span<core::Sequence* const> running,
                              int free_slots) const {
  const double speed = cost_->speed();
  if (speed <= 0) return 0;
  double ahead = 0;
  int before = 0;
  for (int i = 0; i < kNumPriorities; ++i) {
    if (!Ahead(static_cast<Priority>(i), priority)) continue;
    ahead += waiting_[static_cast<size_t>(i)];
    before += count_[static_cast<size_t>(i)];
  }
  if (before < free_slots) return 0;
  const auto own = static_cast<size_t>(priority);
  if (parts_[own] > 0) ahead = std::min(ahead, waiting_[own] / parts_[own]);
  double runs = 0;
  bool lower_runs = false;
  for (const core::Sequence* sequence : running) {
    runs += Remaining(*sequence);
    lower_runs = lower_runs || !Ahead(sequence->request.priority, priority);
  }
  const auto slots = static_cast<double>(running.size());
  if (free_slots <= 0 && !lower_runs && slots > 0) ahead += 2 * runs / slots;
  return ahead / speed;
}

}  // namespace ropeway::scheduler
