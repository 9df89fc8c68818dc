// The victim's rule that several policies share.
#ifndef ROPEWAY_POLICY_NEWEST_H_
#define ROPEWAY_POLICY_NEWEST_H_

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/sequence.h"

namespace ropeway {

// The index of the one that arrived last. REQUIRES: not empty.
inline size_t NewestOf(std::span<const Sequence* const> candidates) {
  const auto newest =
      std::max_element(candidates.begin(), candidates.end(),
                       [](const Sequence* a, const Sequence* b) { return a->order < b->order; });
  return static_cast<size_t>(newest - candidates.begin());
}

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_NEWEST_H_
