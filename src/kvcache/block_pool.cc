#include "kvcache/block_pool.h"

#include <algorithm>
#include <bit>
#include <string>

namespace ropeway {
namespace {

// The weight of each cost level relative to a short chain. A token at position p
// costs 1 + p / 1400 times one at position 0 (docs/performance.md: attention against the rest of
// the forward pass), and a chain of n tokens 1 + n / 2800 times on average.
constexpr std::array<double, EvictionQueue::kNumCosts> kCostWeights = {1.0, 1.5, 2.0,
                                                                       3.0, 5.0, 8.0};
constexpr double kTokensPerUnit = 2800;
// A block that was reused is likely reused again.
constexpr double kReusedWeight = 2.0;
constexpr std::array<double, kNumRetentions> kRetentionWeights = {1.0, 4.0};

double WeightOf(int its_class) {
  const int cost = its_class % EvictionQueue::kNumCosts;
  const int rest = its_class / EvictionQueue::kNumCosts;
  return kCostWeights[static_cast<size_t>(cost)] * (rest % 2 == 1 ? kReusedWeight : 1.0) *
         kRetentionWeights[static_cast<size_t>(rest / 2)];
}

Status BrokenPool(BlockId block, const char* what) {
  return {StatusCode::kInternal, "KV block " + std::to_string(block) + " " + what};
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
      return {StatusCode::kInternal, "the eviction list " + std::to_string(c) + " has a wrong end"};
    }
    listed += size;
  }
  if (listed == size_) return {};
  return {StatusCode::kInternal, "the eviction lists hold " + std::to_string(listed) +
                                     " blocks, not " + std::to_string(size_)};
}

BlockPool::BlockPool(int32_t num_blocks, EvictionPolicy eviction)
    : references_(Index(num_blocks), 0),
      named_(Index(num_blocks), 0),
      names_(Index(num_blocks)),
      writer_(Index(num_blocks), kNoWriter),
      epoch_(Index(num_blocks), 0),
      claims_(Index(num_blocks), 0),
      worth_(Index(num_blocks)),
      buckets_(std::bit_ceil(std::max<size_t>(1, Index(num_blocks))), -1),
      next_(Index(num_blocks), -1),
      bucket_mask_(buckets_.size() - 1),
      queue_(num_blocks, eviction) {
  free_.reserve(Index(num_blocks));
  for (BlockId block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

BlockId BlockPool::Take(Evicted* evicted) {
  evicted->block = -1;
  if (free_.empty()) {
    const BlockId block = queue_.Pop();
    *evicted = {block, names_[Index(block)], claims_[Index(block)] > 0};
    claims_[Index(block)] = 0;
    ++evictions_;
    ForgetName(block);
  }
  const BlockId block = free_.back();
  free_.pop_back();
  references_[Index(block)] = 1;
  ++num_held_;
  return block;
}

void BlockPool::Ref(BlockId block) {
  if (references_[Index(block)]++ > 0) return;
  queue_.Remove(block);
  ++num_held_;
}

void BlockPool::Unref(BlockId block, const BlockWorth& worth) {
  BlockWorth& known = worth_[Index(block)];
  known.chain_tokens = std::max(known.chain_tokens, worth.chain_tokens);
  known.reused = known.reused || worth.reused;
  known.retention = std::max(known.retention, worth.retention);
  if (--references_[Index(block)] > 0) return;
  --num_held_;
  if (named(block)) {
    Enqueue(block);
  } else {
    worth_[Index(block)] = {};
    free_.push_back(block);
  }
}

void BlockPool::Enqueue(BlockId block) {
  const BlockWorth& worth = worth_[Index(block)];
  queue_.Push(block,
              claims_[Index(block)] > 0
                  ? EvictionQueue::kClaimed
                  : EvictionQueue::ClassOf(worth.chain_tokens, worth.reused, worth.retention));
}

BlockId BlockPool::Find(const BlockName& name) const {
  BlockId block = buckets_[Bucket(name)];
  while (block >= 0 && names_[Index(block)] != name) block = next_[Index(block)];
  return block;
}

void BlockPool::SetName(BlockId block, const BlockName& name, uint64_t writer) {
  const size_t b = Index(block);
  BlockId& bucket = buckets_[Bucket(name)];
  named_[b] = 1;
  names_[b] = name;
  writer_[b] = writer;
  next_[b] = bucket;
  bucket = block;
}

void BlockPool::ForgetName(BlockId block) {
  const size_t b = Index(block);
  BlockId* link = &buckets_[Bucket(names_[b])];
  while (*link != block) link = &next_[Index(*link)];
  *link = next_[b];
  next_[b] = -1;
  named_[b] = 0;
  writer_[b] = kNoWriter;
  ++epoch_[b];
  if (references_[b] > 0) return;
  if (queue_.queued(block)) queue_.Remove(block);
  worth_[b] = {};
  free_.push_back(block);
}

void BlockPool::Unclaim(BlockId block) {
  if (--claims_[Index(block)] > 0 || references_[Index(block)] > 0) return;
  queue_.Remove(block);
  Enqueue(block);
}

Status BlockPool::CheckIntegrity() const {
  std::vector<uint8_t> on_free(references_.size(), 0);
  for (const BlockId block : free_) {
    if (on_free[Index(block)]++ != 0) return BrokenPool(block, "is on the free list twice");
  }
  int32_t held = 0;
  for (BlockId block = 0; block < num_blocks(); ++block) {
    const int32_t references = references_[Index(block)];
    if (references < 0) return BrokenPool(block, "has a negative reference count");
    if (references > 0) ++held;
    const bool free = references == 0 && !named(block);
    const bool cached = references == 0 && named(block);
    if (free != (on_free[Index(block)] != 0)) {
      return BrokenPool(
          block, free ? "is free and not on the free list" : "is on the free list and in use");
    }
    if (cached != queue_.queued(block))
      return BrokenPool(block, "is cached and not queued, or queued and not cached");
    if (named(block) && Find(names_[Index(block)]) != block) {
      return BrokenPool(block, "is not found under its name");
    }
    if (cached && pending(block)) return BrokenPool(block, "is cached and was never computed");
    if (claims_[Index(block)] < 0 || (claims_[Index(block)] > 0 && (free || pending(block)))) {
      return BrokenPool(block, "has a claim and no computed name");
    }
  }
  if (held != num_held_ || num_free() + num_held() + num_cached() != num_blocks()) {
    return {StatusCode::kInternal, "free " + std::to_string(num_free()) + " + cached " +
                                       std::to_string(num_cached()) + " + held " +
                                       std::to_string(num_held()) + " KV blocks do not add up to " +
                                       std::to_string(num_blocks())};
  }
  return queue_.CheckIntegrity();
}

}  // namespace ropeway
