#include "kvcache/block_pool.h"

#include <algorithm>
#include <bit>
#include <string>

namespace ropeway {
namespace {

Status BrokenPool(BlockId block, const char* what) {
  return {StatusCode::kInternal, "KV block " + std::to_string(block) + " " + what};
}

}  // namespace

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
          block, free ? "is nobody's and not on the free list" : "is on the free list and in use");
    }
    if (cached != queue_.queued(block))
      return BrokenPool(block, "is cached and not queued, or queued");
    if (named(block) && Find(names_[Index(block)]) != block) {
      return BrokenPool(block, "is not found under its name");
    }
    if (cached && pending(block)) return BrokenPool(block, "is cached and was never computed");
    if (claims_[Index(block)] < 0 || (claims_[Index(block)] > 0 && (free || pending(block)))) {
      return BrokenPool(block, "has a claim and nothing to be claimed");
    }
  }
  if (held != num_held_ || num_free() + num_held() + num_cached() != num_blocks()) {
    return {StatusCode::kInternal, "free " + std::to_string(num_free()) + " + cached " +
                                       std::to_string(num_cached()) + " + held " +
                                       std::to_string(num_held()) + " KV blocks are not all " +
                                       std::to_string(num_blocks())};
  }
  return queue_.CheckIntegrity();
}

}  // namespace ropeway
