#include "policy/fair.h"

#include <utility>

namespace ropeway {

size_t FairPolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  const auto key = [this](const Sequence* sequence) {
    return std::pair(counters_.Of(*sequence), sequence->order);
  };
  size_t most = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (key(candidates[i]) > key(candidates[most])) most = i;
  }
  return most;
}

}  // namespace ropeway
