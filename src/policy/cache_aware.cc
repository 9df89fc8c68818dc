#include "policy/cache_aware.h"

#include <limits>

#include "policy/newest.h"

namespace ropeway {

Rank CacheAwarePolicy::RankOf(const Sequence& sequence) const {
  if (sequence.running()) return {{std::numeric_limits<int64_t>::min()}};
  const double waited = ToSeconds(now_ - sequence.queued_since) * kTokensPerSecond;
  return {{-(static_cast<int64_t>(waited) + sequence.cached_hint)}};
}

size_t CacheAwarePolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  return NewestOf(candidates);
}

}  // namespace ropeway
