#include "scheduler/queue_load.h"

#include <algorithm>

namespace ropeway {

double QueueLoad::Remaining(const Sequence& sequence) const {
  const int32_t output = predictor_.Remaining(sequence);
  const int32_t there = sequence.running() ? sequence.computed : sequence.cached_hint;
  const int32_t ids = std::max(0, sequence.num_ids() - there);
  return cost_->Cost(there, ids) + cost_->Cost(sequence.num_ids(), output);
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
                              int free_places) const {
  const double speed = cost_->speed();
  if (speed <= 0) return 0;
  double ahead = 0;
  int before = 0;
  for (int i = 0; i < kNumPriorities; ++i) {
    if (!Ahead(static_cast<Priority>(i), priority)) continue;
    ahead += waiting_[static_cast<size_t>(i)];
    before += count_[static_cast<size_t>(i)];
  }
  if (before < free_places) return 0;
  const auto own = static_cast<size_t>(priority);
  if (parts_[own] > 0) ahead = std::min(ahead, waiting_[own] / parts_[own]);
  double runs = 0;
  bool lower_runs = false;
  for (const Sequence* sequence : running) {
    runs += Remaining(*sequence);
    lower_runs = lower_runs || !Ahead(sequence->priority, priority);
  }
  const auto places = static_cast<double>(running.size());
  if (free_places <= 0 && !lower_runs && places > 0) ahead += 2 * runs / places;
  return ahead / speed;
}

}  // namespace ropeway
