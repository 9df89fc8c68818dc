#include "policy/fcfs.h"

namespace ropeway {

Rank FcfsPolicy::RankOf(const Sequence& sequence) const {
  return {{static_cast<int64_t>(sequence.order)}};
}

size_t FcfsPolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  size_t newest = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (candidates[i]->order > candidates[newest]->order) newest = i;
  }
  return newest;
}

}  // namespace ropeway
