#include "policy/length_balance.h"

#include <algorithm>
#include <cmath>

#include "policy/newest.h"

namespace ropeway {

void LengthBalancePolicy::BeginStep(std::span<Sequence* const> queue,
                                    std::span<Sequence* const> running, TimePoint now) {
  now_ = now;
  double length = 0.0;
  for (const Sequence* sequence : running) length += sequence->num_ids();
  if (!running.empty()) {
    length /= static_cast<double>(running.size());
  } else if (!queue.empty()) {
    length =
        (*std::min_element(queue.begin(), queue.end(), [](const Sequence* a, const Sequence* b) {
          return a->order < b->order;
        }))->num_ids();
  }
  reference_ = std::log2(std::max(1.0, length));
}

Rank LengthBalancePolicy::RankOf(const Sequence& sequence) const {
  if (sequence.running()) return {{-1}};
  const double distance = std::abs(std::log2(std::max(1, sequence.num_ids())) - reference_);
  const double aged = distance - ToSeconds(now_ - sequence.queued_since) / kSecondsPerDoubling;
  return {{static_cast<int64_t>(std::max(0.0, aged) * kBuckets)}};
}

size_t LengthBalancePolicy::PickVictim(std::span<const Sequence* const> candidates) const {
  return NewestOf(candidates);
}

}  // namespace ropeway
