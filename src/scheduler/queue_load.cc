#include "scheduler/queue_load.h"

#include <algorithm>
#include <limits>

namespace ropeway::scheduler {

void QueueLoad::Reserve(size_t tenants) {
  if (work_.size() >= tenants) return;
  others_.resize(tenants);
  work_.resize(tenants);
}

double QueueLoad::Remaining(const core::Sequence& sequence) const {
  const int32_t output = predictor_.Remaining(sequence);
  const int32_t computed = sequence.running() ? sequence.kv.computed : sequence.sched.cached_hint;
  const int32_t ids = std::max(0, sequence.num_ids() - computed);
  return cost_->Cost(computed, ids) + cost_->Cost(sequence.num_ids(), output) +
         output * sampling_->Sampling(sequence) * cost_->speed();
}

void QueueLoad::Enter(core::Sequence* sequence) {
  const auto its_class = static_cast<size_t>(sequence->request.priority);
  Work& work = work_[static_cast<size_t>(sequence->sched.tenant)];
  sequence->sched.queued_cost = Remaining(*sequence);
  work.cost[its_class] += sequence->sched.queued_cost;
  ++work.count[its_class];
  tokens_ += sequence->num_ids();
}

void QueueLoad::Leave(core::Sequence* sequence) {
  const auto its_class = static_cast<size_t>(sequence->request.priority);
  Work& work = work_[static_cast<size_t>(sequence->sched.tenant)];
  work.cost[its_class] -= sequence->sched.queued_cost;
  if (--work.count[its_class] == 0) work.cost[its_class] = 0;  // Drop what rounding has left.
  tokens_ -= sequence->num_ids();
}

double QueueLoad::WorkBefore(const Newcomer& newcomer, const View& view, double* count) const {
  const Priority priority = newcomer.priority;
  std::fill(others_.begin(), others_.end(), 0.0);
  for (const core::Sequence* sequence : view.running) {
    const bool same = !has_classes_ || sequence->request.priority == priority;
    if (same && sequence->sched.tenant != newcomer.tenant)
      others_[static_cast<size_t>(sequence->sched.tenant)] += Remaining(*sequence);
  }
  const size_t tenants = tenants_->all().size();
  double higher = 0;  // Of higher classes, whoever sent it.
  double own = 0;     // Of its class, as the rest.
  for (size_t t = 0; t < tenants; ++t) {
    for (size_t c = 0; c < kNumPriorities; ++c) {
      const auto other = static_cast<Priority>(c);
      if (!Ahead(other, priority)) continue;
      const bool is_own = static_cast<int32_t>(t) == newcomer.tenant;
      const bool first = has_classes_ && other != priority;
      if (first) higher += work_[t].cost[c];
      if (!first && is_own) own += work_[t].cost[c];
      if (first || is_own) *count += work_[t].count[c];
    }
  }
  double same = own;
  for (size_t t = 0; t < tenants; ++t) {
    if (static_cast<int32_t>(t) == newcomer.tenant) continue;
    double waits = 0;
    double sequences = 0;
    for (size_t c = 0; c < kNumPriorities; ++c) {
      if (has_classes_ && static_cast<Priority>(c) != priority) continue;
      waits += work_[t].cost[c];
      sequences += work_[t].count[c];
    }
    const double all = waits + others_[t];
    if (all <= 0) continue;
    const double part = std::min(all, own * tenants_->all()[t].weight / newcomer.weight);
    same += part;
    *count += sequences * part / all;
  }
  const double share = parts_[static_cast<size_t>(priority)];
  return share > 0 ? std::min(higher + same, same / share) : higher + same;
}

double QueueLoad::UntilFirstEnd(std::span<core::Sequence* const> running) const {
  const auto slots = static_cast<double>(running.size());
  double least = std::numeric_limits<double>::infinity();
  double guessed = 0;
  double guesses = 0;
  for (const core::Sequence* sequence : running) {
    const double left = Remaining(*sequence);
    if (policy::OutputPredictor::RunsToItsLimit(*sequence)) {
      least = std::min(least, left * slots);
    } else {
      guessed += left;
      ++guesses;
    }
  }
  return guesses > 0 ? std::min(least, 2 * guessed * slots / (guesses * guesses)) : least;
}

double QueueLoad::UntilTurn(const Newcomer& newcomer, const View& view) const {
  const std::vector<TenantTable::Tenant>& all = tenants_->all();
  const bool known = newcomer.tenant >= 0 && static_cast<size_t>(newcomer.tenant) < all.size();
  const double own = known ? tenants_->Share(all[static_cast<size_t>(newcomer.tenant)]) : 0.0;
  double seconds = -1.0;
  for (size_t t = 0; t < all.size(); ++t) {
    const TenantTable::Tenant& other = all[t];
    if (static_cast<int32_t>(t) == newcomer.tenant || other.slots == 0) continue;
    if (tenants_->Share(other) <= own) continue;
    const double steps = kMinRunSteps + policy::kQuantumSteps * other.weight / other.slots;
    if (seconds < 0 || steps * view.step_seconds < seconds) seconds = steps * view.step_seconds;
  }
  return seconds;
}

double QueueLoad::WaitSeconds(const Newcomer& newcomer, const View& view) const {
  const double speed = cost_->speed();
  if (speed <= 0) return 0;
  double before = 0;
  double seconds = WorkBefore(newcomer, view, &before) / speed;
  if (before < view.free_slots) return 0;
  const bool lower_runs =
      std::any_of(view.running.begin(), view.running.end(), [&](const core::Sequence* sequence) {
        return !Ahead(sequence->request.priority, newcomer.priority);
      });
  if (view.free_slots > 0 || lower_runs || view.running.empty()) return seconds;
  const double end = UntilFirstEnd(view.running) / speed;
  const double turn = UntilTurn(newcomer, view);
  return seconds + (turn >= 0 ? std::min(end, turn) : end);
}

}  // namespace ropeway::scheduler
