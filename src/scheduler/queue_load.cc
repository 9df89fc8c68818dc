#include "scheduler/queue_load.h"

#include <algorithm>

namespace ropeway {

double QueueLoad::Remaining(const Sequence& sequence) const {
  const int32_t output = predictor_.Remaining(sequence);
  const int32_t ids = sequence.num_ids() - sequence.computed;
  return cost_->Cost(sequence.computed, ids) + cost_->Cost(sequence.num_ids(), output);
}

void QueueLoad::Enter(Sequence* sequence) {
  const auto its_class = static_cast<size_t>(sequence->priority);
  sequence->queued_cost = Remaining(*sequence);
  waiting_[its_class] += sequence->queued_cost;
  ++count_[its_class];
  tokens_ += sequence->num_ids();
}

void QueueLoad::Leave(Sequence* sequence) {
  const auto its_class = static_cast<size_t>(sequence->priority);
  waiting_[its_class] -= sequence->queued_cost;
  if (--count_[its_class] == 0) waiting_[its_class] = 0;  // Of rounding nothing is left.
  tokens_ -= sequence->num_ids();
}

double QueueLoad::WaitSeconds(Priority priority, std::span<Sequence* const> running,
                              bool place_free) const {
  const double speed = cost_->speed();
  if (speed <= 0) return 0;
  const auto own = static_cast<size_t>(priority);
  std::array<double, kNumPriorities> work = waiting_;
  bool anybody_waits = false;
  for (int i = 0; i < kNumPriorities; ++i) {
    anybody_waits = anybody_waits || (count_[static_cast<size_t>(i)] > 0 &&
                                      Ahead(static_cast<Priority>(i), priority));
  }
  if (!anybody_waits && place_free) return 0;
  if (!place_free) {
    for (const Sequence* sequence : running) {
      work[static_cast<size_t>(sequence->priority)] += Remaining(*sequence) / 2;
    }
  }
  double ahead = 0;
  for (int i = 0; i < kNumPriorities; ++i) {
    if (Ahead(static_cast<Priority>(i), priority)) ahead += work[static_cast<size_t>(i)];
  }
  if (has_classes()) ahead = std::min(ahead, work[own] / parts_[own]);
  return ahead / speed;
}

}  // namespace ropeway
