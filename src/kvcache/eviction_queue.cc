#include "kvcache/eviction_queue.h"

#include <algorithm>
#include <string>

namespace ropeway {
namespace {

// What a block of each cost level is worth against one of a short chain. A token at position p
// costs 1 + p / 1400 of one at position 0 (docs/performance.md: attention against the rest of the
// forward pass), on the average over a chain of n tokens 1 + n / 2800.
constexpr std::array<double, EvictionQueue::kNumCosts> kCostWeights = {1.0, 1.5, 2.0,
                                                                       3.0, 5.0, 8.0};
constexpr double kTokensPerUnit = 2800;
// What was used twice is likely used again.
constexpr double kReusedWeight = 2.0;
constexpr std::array<double, kNumRetentions> kRetentionWeights = {1.0, 4.0};

double WeightOf(int its_class) {
  const int cost = its_class % EvictionQueue::kNumCosts;
  const int rest = its_class / EvictionQueue::kNumCosts;
  return kCostWeights[static_cast<size_t>(cost)] * (rest % 2 == 1 ? kReusedWeight : 1.0) *
         kRetentionWeights[static_cast<size_t>(rest / 2)];
}

}  // namespace

int EvictionQueue::ClassOf(int32_t chain_tokens, bool reused, Retention retention) {
  const double cost = 1.0 + chain_tokens / kTokensPerUnit;
  int level = 0;
  while (level + 1 < kNumCosts && kCostWeights[static_cast<size_t>(level) + 1] <= cost) ++level;
  return (static_cast<int>(retention) * 2 + (reused ? 1 : 0)) * kNumCosts + level;
}

EvictionQueue::EvictionQueue(int32_t num_blocks, EvictionPolicy policy)
    : policy_(policy),
      next_(static_cast<size_t>(num_blocks), -1),
      previous_(static_cast<size_t>(num_blocks), -1),
      class_(static_cast<size_t>(num_blocks), -1),
      credit_(static_cast<size_t>(num_blocks), 0) {}

void EvictionQueue::Push(BlockId block, int its_class) {
  if (policy_ == EvictionPolicy::kLru && its_class != kClaimed) its_class = 0;
  const auto b = static_cast<size_t>(block);
  const auto c = static_cast<size_t>(its_class);
  class_[b] = static_cast<int8_t>(its_class);
  credit_[b] = level_ + (its_class == kClaimed ? 0 : WeightOf(its_class));
  List& list = lists_[c];
  previous_[b] = list.last;
  next_[b] = -1;
  if (list.last >= 0) {
    next_[static_cast<size_t>(list.last)] = block;
  } else {
    list.first = block;
  }
  list.last = block;
  ++sizes_[c];
  ++size_;
}

void EvictionQueue::Remove(BlockId block) {
  const auto b = static_cast<size_t>(block);
  const auto c = static_cast<size_t>(static_cast<uint8_t>(class_[b]));
  List& list = lists_[c];
  (previous_[b] >= 0 ? next_[static_cast<size_t>(previous_[b])] : list.first) = next_[b];
  (next_[b] >= 0 ? previous_[static_cast<size_t>(next_[b])] : list.last) = previous_[b];
  class_[b] = -1;
  --sizes_[c];
  --size_;
}

BlockId EvictionQueue::Pop() {
  BlockId least = -1;
  for (int c = 0; c < kNumClasses; ++c) {
    const BlockId first = lists_[static_cast<size_t>(c)].first;
    if (first < 0) continue;
    if (least < 0 || credit_[static_cast<size_t>(first)] < credit_[static_cast<size_t>(least)]) {
      least = first;
    }
  }
  if (least >= 0) {
    level_ = std::max(level_, credit_[static_cast<size_t>(least)]);
  } else {
    least = lists_[kClaimed].first;
  }
  Remove(least);
  return least;
}

Status EvictionQueue::CheckIntegrity() const {
  int32_t listed = 0;
  for (int c = 0; c <= kNumClasses; ++c) {
    BlockId previous = -1;
    int32_t size = 0;
    const List& list = lists_[static_cast<size_t>(c)];
    for (BlockId block = list.first; block >= 0; block = next_[static_cast<size_t>(block)]) {
      const auto b = static_cast<size_t>(block);
      const bool grows = previous < 0 || credit_[static_cast<size_t>(previous)] <= credit_[b];
      if (previous_[b] != previous || class_[b] != c || !grows || ++size > size_) {
        return {StatusCode::kInternal, "the eviction list " + std::to_string(c) +
                                           " is broken at block " + std::to_string(block)};
      }
      previous = block;
    }
    if (list.last != previous || size != sizes_[static_cast<size_t>(c)]) {
      return {StatusCode::kInternal,
              "the eviction list " + std::to_string(c) + " does not end where it should"};
    }
    listed += size;
  }
  if (listed == size_) return {};
  return {StatusCode::kInternal, "the eviction lists hold " + std::to_string(listed) +
                                     " blocks, not " + std::to_string(size_)};
}

}  // namespace ropeway
