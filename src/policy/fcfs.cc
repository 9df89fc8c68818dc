#include "policy/fcfs.h"

namespace ropeway {

int64_t FcfsPolicy::Rank(const Sequence& sequence, TimePoint /*now*/) const {
  return static_cast<int64_t>(sequence.order);
}

size_t FcfsPolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  size_t newest = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (candidates[i]->order > candidates[newest]->order) newest = i;
  }
  return newest;
}

// Arrival order needs no memory of what ran.
void FcfsPolicy::OnScheduled(const Sequence& /*sequence*/, int32_t /*tokens*/) {}
void FcfsPolicy::OnFinished(const Sequence& /*sequence*/) {}

}  // namespace ropeway
