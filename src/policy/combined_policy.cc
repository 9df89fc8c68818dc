#include "policy/combined_policy.h"

#include <utility>

namespace ropeway {

CombinedPolicy::CombinedPolicy(std::vector<std::unique_ptr<SchedulingPolicy>> parts)
    : parts_(std::move(parts)) {
  for (const auto& part : parts_) {
    if (!name_.empty()) name_ += '+';
    name_ += part->name();
  }
}

void CombinedPolicy::BeginStep(std::span<Sequence* const> queue, std::span<Sequence* const> running,
                               TimePoint now) {
  for (const auto& part : parts_) part->BeginStep(queue, running, now);
}

Rank CombinedPolicy::RankOf(const Sequence& sequence) const {
  Rank rank;
  for (size_t i = 0; i < parts_.size(); ++i) rank.keys[i] = parts_[i]->RankOf(sequence).keys[0];
  return rank;
}

bool CombinedPolicy::MayPreempt(const Sequence& urgent, const Sequence& victim) const {
  return parts_[0]->MayPreempt(urgent, victim);
}

size_t CombinedPolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  return parts_[0]->PickVictim(candidates);
}

void CombinedPolicy::OnScheduled(const Sequence& sequence, const ScheduledWork& work) {
  for (const auto& part : parts_) part->OnScheduled(sequence, work);
}

void CombinedPolicy::OnFinished(const Sequence& sequence, bool completed) {
  for (const auto& part : parts_) part->OnFinished(sequence, completed);
}

}  // namespace ropeway
