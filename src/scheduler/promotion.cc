#include "scheduler/promotion.h"

#include <algorithm>

namespace ropeway {

void Promotion::Reserve(size_t count) {
  if (overdue_.capacity() < count) overdue_.reserve(2 * count);
}

void Promotion::Choose(TimePoint now, int limit, std::span<Sequence* const> running,
                       std::span<Sequence* const> queue) {
  const auto overdue = [&](const Sequence& s) { return now - s.queued_since >= max_wait_; };
  auto left = static_cast<ptrdiff_t>((limit + 1) / 2);
  for (Sequence* sequence : running) {
    // Others had all of the budget.
    if (sequence->state == SequenceState::kPrefilling && overdue(*sequence)) {
      sequence->promoted = true;
    }
    if (sequence->promoted) --left;
  }
  overdue_.clear();
  for (Sequence* sequence : queue) {
    sequence->promoted = false;
    if (overdue(*sequence)) overdue_.push_back(sequence);
  }
  left = std::clamp<ptrdiff_t>(left, 0, static_cast<ptrdiff_t>(overdue_.size()));
  std::nth_element(overdue_.begin(), overdue_.begin() + left, overdue_.end(),
                   [](const Sequence* a, const Sequence* b) { return a->order < b->order; });
  for (ptrdiff_t i = 0; i < left; ++i) overdue_[static_cast<size_t>(i)]->promoted = true;
}

}  // namespace ropeway
