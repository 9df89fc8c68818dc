#include "scheduler/step_order.h"

#include <algorithm>

namespace ropeway::scheduler {

StepOrder::StepOrder(const policy::SchedulingPolicy* policy, const kvcache::KvCacheManager* kv,
                     size_t slots)
    : policy_(policy), kv_(kv) {
  // Sequences preempted in a step stay in it beside those that take their slots.
  running.reserve(2 * slots);
}

void StepOrder::Rank(std::span<core::Sequence* const> waiting,
                     std::span<core::Sequence* const> active, TenantTable* tenants) {
  running.clear();
  for (core::Sequence* sequence : active) running.push_back(RankedOf(sequence));
  queue.Clear();
  for (core::Sequence* sequence : waiting) {
    if (sequence->sched.follows != 0) UpdateFollower(sequence);
    if (sequence->sched.follows != 0) continue;
    const Ranked ranked = RankedOf(sequence);
    queue.Add(ranked);
    Ranked& first = tenants->Of(*sequence).first;
    if (first.sequence == nullptr || Before(ranked, first)) first = ranked;
  }
  queue.Sort();
  SortRunning();
}

void StepOrder::UpdateFollower(core::Sequence* follower) {
  uint64_t leader = 0;
  if (!kv_->StillPending(*follower, &leader)) {
    follower->sched.follows = 0;
    return;
  }
  const auto it = std::find_if(running.begin(), running.end(), [leader](const Ranked& ranked) {
    return ranked.sequence->id() == leader;
  });
  if (it == running.end()) return;
  const Ranked its = RankedOf(follower);
  it->leads = true;
  it->aged = it->aged || its.aged;
  it->rank = std::min(it->rank, its.rank);
}

Ranked StepOrder::RankedOf(core::Sequence* sequence) const {
  return {
      {.rank = policy_->RankOf(*sequence), .order = sequence->order, .aged = sequence->sched.aged},
      sequence};
}

void StepOrder::SortRunning() { std::sort(running.begin(), running.end(), Before); }

int32_t StepOrder::PositionOf(const core::Sequence& sequence,
                              std::span<core::Sequence* const> waiting) const {
  const Ranked its = RankedOf(const_cast<core::Sequence*>(&sequence));
  return static_cast<int32_t>(std::count_if(
      waiting.begin(), waiting.end(),
      [&](core::Sequence* other) { return other != &sequence && Before(RankedOf(other), its); }));
}

std::vector<uint64_t> StepOrder::IdsOf(std::span<core::Sequence* const> waiting) const {
  std::vector<Ranked> order;
  order.reserve(waiting.size());
  for (core::Sequence* sequence : waiting) order.push_back(RankedOf(sequence));
  std::sort(order.begin(), order.end(), Before);
  std::vector<uint64_t> ids;
  ids.reserve(order.size());
  for (const Ranked& ranked : order) ids.push_back(ranked.sequence->id());
  return ids;
}

void PassedAged::Reserve(size_t sequences) {
  if (passed_.capacity() < sequences) passed_.reserve(2 * sequences);
}

bool PassedAged::MayPass(std::span<core::Sequence* const> running, int limit) const {
  return std::all_of(passed_.begin(), passed_.end(), [&](const Ranked& passed) {
    const auto later = std::count_if(
        running.begin(), running.end(),
        [&](const core::Sequence* other) { return other->order > passed.sequence->order; });
    return later < limit / 2;
  });
}

void PassedAged::Return(WaitingQueue<Ranked>* queue) const {
  for (const Ranked& passed : passed_) queue->Add(passed);
  if (!passed_.empty()) queue->Sort();
}

}  // namespace ropeway::scheduler
