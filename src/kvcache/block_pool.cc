#include "kvcache/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace ropeway::kvcache {
namespace {

// The weight of each cost level relative to a short chain. A token at position p
// costs 1 + p / 1400 times one at position 0 (docs/performance.md: attention against the rest of
// the forward pass), and a chain of n tokens 1 + n / 2800 times on average.
constexpr std::array<double, EvictionQueue::kNumCosts> kCostWeights = {1.0, 1.5, 2.0,
                                                                       3.0, 5.0, 8.0};
constexpr double kTokensPerUnit = 2800;
// A block that was reused is likely reused again.
constexpr double kReusedWeight = 2.0;
constexpr std::array<double, kNumCacheRetentions> kRetentionWeights = {1.0, 4.0};

double WeightOf(int its_class) {
  const int cost = its_class % EvictionQueue::kNumCosts;
  const int rest = its_class / EvictionQueue::kNumCosts;
  return kCostWeights[static_cast<size_t>(cost)] * (rest % 2 == 1 ? kReusedWeight : 1.0) *
         kRetentionWeights[static_cast<size_t>(rest / 2)];
}

Status BrokenPool(core::BlockId block, const char* what) {
  return {StatusCode::kInternal, fmt::format("KV block {} {}", block, what)};
}

}  // namespace

int EvictionQueue::ClassOf(int32_t chain_tokens, bool reused, CacheRetention retention) {
  const double cost = 1.0 + chain_tokens / kTokensPerUnit;
  int level = 0;
  while (level + 1 < kNumCosts && kCostWeights[static_cast<size_t>(level) + 1] <= cost) ++level;
  return (static_cast<int>(retention) * 2 + (reused ? 1 : 0)) * kNumCosts + level;
}

EvictionQueue::EvictionQueue(int32_t num_blocks, EvictionPolicy policy)
    : policy_(policy), nodes_(static_cast<size_t>(num_blocks)) {}

void EvictionQueue::Push(core::BlockId block, int its_class) {
  if (policy_ == EvictionPolicy::kLru && its_class != kClaimed) its_class = 0;
  List& list = lists_[static_cast<size_t>(its_class)];
  At(block) = {.next = -1,
               .previous = list.last,
               .its_class = static_cast<int8_t>(its_class),
               .credit = level_ + (its_class == kClaimed ? 0 : WeightOf(its_class))};
  (list.last >= 0 ? At(list.last).next : list.first) = block;
  list.last = block;
  ++list.size;
  ++size_;
}

void EvictionQueue::Remove(core::BlockId block) {
  Node& node = At(block);
  List& list = lists_[static_cast<unsigned char>(node.its_class)];
  (node.previous >= 0 ? At(node.previous).next : list.first) = node.next;
  (node.next >= 0 ? At(node.next).previous : list.last) = node.previous;
  node.its_class = -1;
  --list.size;
  --size_;
}

core::BlockId EvictionQueue::Pop() {
  core::BlockId least = -1;
  for (size_t c = 0; c < kClaimed; ++c) {
    const core::BlockId first = lists_[c].first;
    if (first >= 0 && (least < 0 || At(first).credit < At(least).credit)) least = first;
  }
  if (least >= 0) {
    level_ = std::max(level_, At(least).credit);
  } else {
    least = lists_[kClaimed].first;
  }
  Remove(least);
  return least;
}

Status EvictionQueue::CheckIntegrity() const {
  int32_t listed = 0;
  for (int c = 0; c <= kNumClasses; ++c) {
    core::BlockId previous = -1;
    int32_t size = 0;
    const List& list = lists_[static_cast<size_t>(c)];
    for (core::BlockId block = list.first; block >= 0; block = At(block).next) {
      const Node& node = At(block);
      const bool grows = previous < 0 || At(previous).credit <= node.credit;
      if (node.previous != previous || node.its_class != c || !grows || ++size > size_) {
        return {StatusCode::kInternal,
                fmt::format("the eviction list {} is broken at block {}", c, block)};
      }
      previous = block;
    }
    if (list.last != previous || size != list.size) {
      return {StatusCode::kInternal, fmt::format("the eviction list {} has a wrong end", c)};
    }
    listed += size;
  }
  if (listed == size_) return {};
  return {StatusCode::kInternal,
          fmt::format("the eviction lists hold {} blocks, not {}", listed, size_)};
}

BlockPool::BlockPool(int32_t num_blocks, EvictionPolicy eviction)
    : blocks_(static_cast<size_t>(num_blocks)),
      buckets_(std::bit_ceil(std::max<size_t>(1, blocks_.size())), -1),
      bucket_mask_(buckets_.size() - 1),
      queue_(num_blocks, eviction) {
  free_.reserve(blocks_.size());
  for (core::BlockId block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

core::BlockId BlockPool::Take(Evicted* evicted) {
  evicted->block = -1;
  if (free_.empty()) {
    const core::BlockId block = queue_.Pop();
    *evicted = {block, name(block), claims(block) > 0};
    At(block).claims = 0;
    ++evictions_;
    ForgetName(block);
  }
  const core::BlockId block = free_.back();
  free_.pop_back();
  At(block).references = 1;
  ++num_held_;
  return block;
}

void BlockPool::Ref(core::BlockId block) {
  if (At(block).references++ > 0) return;
  queue_.Remove(block);
  ++num_held_;
}

void BlockPool::Unref(core::BlockId block, const BlockWorth& worth) {
  BlockWorth& known = At(block).worth;
  known.chain_tokens = std::max(known.chain_tokens, worth.chain_tokens);
  known.reused = known.reused || worth.reused;
  known.retention = std::max(known.retention, worth.retention);
  if (--At(block).references > 0) return;
  --num_held_;
  if (named(block)) {
    Enqueue(block);
  } else {
    known = {};
    free_.push_back(block);
  }
}

void BlockPool::Enqueue(core::BlockId block) {
  const BlockWorth& worth = At(block).worth;
  queue_.Push(block, claims(block) > 0 ? EvictionQueue::kClaimed
                                       : EvictionQueue::ClassOf(worth.chain_tokens, worth.reused,
                                                                worth.retention));
}

core::BlockId BlockPool::Find(const core::BlockName& name) const {
  core::BlockId block = buckets_[Bucket(name)];
  while (block >= 0 && At(block).name != name) block = At(block).next;
  return block;
}

void BlockPool::SetName(core::BlockId block, const core::BlockName& name, uint64_t writer) {
  Block& b = At(block);
  core::BlockId& bucket = buckets_[Bucket(name)];
  b.named = true;
  b.name = name;
  b.writer = writer;
  b.next = bucket;
  bucket = block;
}

void BlockPool::ForgetName(core::BlockId block) {
  Block& b = At(block);
  if (watcher_ != nullptr) watcher_->OnNameForgotten(b.name);
  core::BlockId* link = &buckets_[Bucket(b.name)];
  while (*link != block) link = &At(*link).next;
  *link = b.next;
  b.next = -1;
  b.named = false;
  b.writer = kNoWriter;
  ++b.epoch;
  if (b.references > 0) return;
  if (queue_.queued(block)) queue_.Remove(block);
  b.worth = {};
  free_.push_back(block);
}

void BlockPool::Unclaim(core::BlockId block) {
  if (--At(block).claims > 0 || references(block) > 0) return;
  queue_.Remove(block);
  Enqueue(block);
}

Status BlockPool::CheckIntegrity() const {
  std::vector<uint8_t> on_free(blocks_.size(), 0);
  for (const core::BlockId block : free_) {
    if (on_free[static_cast<size_t>(block)]++ != 0)
      return BrokenPool(block, "is on the free list twice");
  }
  int32_t held = 0;
  for (core::BlockId block = 0; block < num_blocks(); ++block) {
    if (references(block) < 0) return BrokenPool(block, "has a negative reference count");
    if (references(block) > 0) ++held;
    const bool free = references(block) == 0 && !named(block);
    const bool cached = references(block) == 0 && named(block);
    if (free != (on_free[static_cast<size_t>(block)] != 0)) {
      return BrokenPool(
          block, free ? "is free and not on the free list" : "is on the free list and in use");
    }
    if (cached != queue_.queued(block))
      return BrokenPool(block, "is cached and not queued, or queued and not cached");
    if (named(block) && Find(name(block)) != block) {
      return BrokenPool(block, "is not found under its name");
    }
    if (cached && pending(block)) return BrokenPool(block, "is cached and was never computed");
    if (claims(block) < 0 || (claims(block) > 0 && (free || pending(block)))) {
      return BrokenPool(block, "has a claim and no computed name");
    }
  }
  if (held != num_held_ || num_free() + num_held() + num_cached() != num_blocks()) {
    return {StatusCode::kInternal,
            fmt::format("free {} + cached {} + held {} KV blocks do not add up to {}", num_free(),
                        num_cached(), num_held(), num_blocks())};
  }
  return queue_.CheckIntegrity();
}

}  // namespace ropeway::kvcache
