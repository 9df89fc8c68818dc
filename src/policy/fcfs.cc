#include "policy/fcfs.h"

#include "policy/newest.h"

namespace ropeway {

Rank FcfsPolicy::RankOf(const Sequence& sequence) const {
  return {{static_cast<int64_t>(sequence.order)}};
}

size_t FcfsPolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  return NewestOf(candidates);
}

}  // namespace ropeway
