#include "policy/sjf.h"

#include <algorithm>

namespace ropeway {

Rank SjfPolicy::RankOf(const Sequence& sequence) const {
  const int32_t there = sequence.running() ? sequence.computed : sequence.cached_hint;
  const int64_t of_ids = std::max(0, sequence.num_ids() - there);
  return {{of_ids + predictor_.Remaining(sequence)}};
}

size_t SjfPolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  size_t longest = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    const Rank rank = RankOf(*candidates[i]);
    const Rank most = RankOf(*candidates[longest]);
    if (rank > most || (rank == most && candidates[i]->order > candidates[longest]->order)) {
      longest = i;
    }
  }
  return longest;
}

void SjfPolicy::OnFinished(const Sequence& sequence, bool completed) {
  if (completed) predictor_.Learn(sequence.max_tokens, sequence.generated());
}

}  // namespace ropeway
