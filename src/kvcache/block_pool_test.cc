#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "base/random.h"

namespace ropeway::kvcache {
namespace {

constexpr uint64_t kWriter = 7;

void ExpectSound(const BlockPool& pool) {
  const Status status = pool.CheckIntegrity();
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(pool.num_free() + pool.num_cached() + pool.num_held(), pool.num_blocks());
}

core::BlockName Name(TokenId id) { return core::ChildName({}, std::vector<TokenId>{id}); }

core::BlockId Take(BlockPool* pool) {
  BlockPool::Evicted evicted;
  return pool->Take(&evicted);
}

// A cached block with this name.
core::BlockId Cache(BlockPool* pool, TokenId id, const BlockWorth& worth = {}) {
  const core::BlockId block = Take(pool);
  pool->SetName(block, Name(id), kWriter);
  pool->SetComputed(block);
  pool->Unref(block, worth);
  return block;
}

TEST(BlockPoolTest, GivesEachBlockOnceAndTakesItBack) {
  BlockPool pool(3);
  EXPECT_EQ(Take(&pool), 0);
  EXPECT_EQ(Take(&pool), 1);
  EXPECT_EQ(Take(&pool), 2);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.num_held(), 3);
  pool.Ref(1);
  pool.Unref(1, {});
  EXPECT_EQ(pool.num_free(), 0) << "one reference is left";
  pool.Unref(1, {});
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(Take(&pool), 1);
  ExpectSound(pool);
}

TEST(BlockPoolTest, ANamedBlockIsCachedAndFoundUntilItIsEvicted) {
  BlockPool pool(2);
  const core::BlockId block = Cache(&pool, 1);
  EXPECT_EQ(pool.num_cached(), 1);
  EXPECT_EQ(pool.Find(Name(1)), block);
  EXPECT_EQ(pool.Find(Name(2)), -1);
  pool.Ref(block);
  EXPECT_EQ(pool.num_cached(), 0);
  pool.Unref(block, {});
  const uint32_t epoch = pool.epoch(block);
  BlockPool::Evicted evicted;
  EXPECT_NE(pool.Take(&evicted), block) << "a free one goes first";
  EXPECT_EQ(evicted.block, -1);
  EXPECT_EQ(pool.Take(&evicted), block);
  EXPECT_EQ(evicted.block, block);
  EXPECT_EQ(evicted.name, Name(1));
  EXPECT_FALSE(evicted.claimed);
  EXPECT_EQ(pool.Find(Name(1)), -1);
  EXPECT_NE(pool.epoch(block), epoch);
  EXPECT_EQ(pool.evictions(), 1U);
  ExpectSound(pool);
}

TEST(BlockPoolTest, APendingNameSaysWhoComputesIt) {
  BlockPool pool(1);
  const core::BlockId block = Take(&pool);
  pool.SetName(block, Name(1), kWriter);
  EXPECT_TRUE(pool.pending(block));
  EXPECT_EQ(pool.writer(block), kWriter);
  pool.ForgetName(block);
  EXPECT_FALSE(pool.named(block));
  pool.Unref(block, {});
  EXPECT_EQ(pool.num_free(), 1) << "what was never computed is nothing to keep";
  ExpectSound(pool);
}

TEST(BlockPoolTest, AClaimedBlockGoesAfterAllOthers) {
  BlockPool pool(3);
  const core::BlockId claimed = Cache(&pool, 1);
  pool.Ref(claimed);
  pool.Claim(claimed);
  pool.Unref(claimed, {});
  Cache(&pool, 2, {.chain_tokens = 100000, .reused = true, .retention = CacheRetention::kLong});
  Cache(&pool, 3);
  BlockPool::Evicted evicted;
  pool.Take(&evicted);
  EXPECT_EQ(evicted.name, Name(3));
  pool.Take(&evicted);
  EXPECT_EQ(evicted.name, Name(2));
  EXPECT_EQ(pool.num_claimed(), 1);
  pool.Take(&evicted);
  EXPECT_EQ(evicted.name, Name(1));
  EXPECT_TRUE(evicted.claimed);
  EXPECT_EQ(pool.claims(claimed), 0);
  ExpectSound(pool);
}

TEST(BlockPoolTest, ABlockWithoutItsLastClaimIsLikeAnyOther) {
  BlockPool pool(2);
  const core::BlockId first = Cache(&pool, 1);
  pool.Ref(first);
  pool.Claim(first);
  pool.Claim(first);
  pool.Unref(first, {});
  Cache(&pool, 2);
  pool.Unclaim(first);
  EXPECT_EQ(pool.num_claimed(), 1);
  pool.Unclaim(first);
  EXPECT_EQ(pool.num_claimed(), 0);
  BlockPool::Evicted evicted;
  pool.Take(&evicted);
  EXPECT_EQ(evicted.name, Name(2)) << "it was let go after the second was cached";
  ExpectSound(pool);
}

TEST(BlockPoolTest, OfOneChainTheParentNeverGoesBeforeItsChild) {
  // A chain of blocks 1 <- 2 <- 3; a short request uses 1 again.
  BlockPool pool(3);
  const BlockWorth worth = {
      .chain_tokens = 50000, .reused = false, .retention = CacheRetention::kLong};
  std::vector<core::BlockId> chain;
  for (TokenId id = 1; id <= 3; ++id) {
    chain.push_back(Take(&pool));
    pool.SetName(chain.back(), Name(id), kWriter);
    pool.SetComputed(chain.back());
  }
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) pool.Unref(*it, worth);
  pool.Ref(chain[0]);
  pool.Unref(chain[0], {.chain_tokens = 16, .retention = CacheRetention::kNormal});
  BlockPool::Evicted evicted;
  for (const TokenId expected : {3, 2, 1}) {
    pool.Take(&evicted);
    EXPECT_EQ(evicted.name, Name(expected));
  }
}

TEST(BlockPoolTest, AnySequenceOfCallsKeepsItSound) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    base::SeededRandom random(seed);
    BlockPool pool(static_cast<int32_t>(random.Between(1, 20)));
    std::map<core::BlockId, int32_t> held;   // And their references.
    std::map<TokenId, core::BlockId> names;  // Of held and cached blocks.
    TokenId next_name = 1;
    for (int i = 0; i < 400; ++i) {
      const uint64_t what = random.Below(6);
      const auto any = [&] {
        return std::next(held.begin(), static_cast<int64_t>(random.Below(held.size())));
      };
      if (what <= 1 && pool.num_free() + pool.num_cached() > 0) {
        BlockPool::Evicted evicted;
        const core::BlockId block = pool.Take(&evicted);
        ASSERT_TRUE(held.emplace(block, 1).second) << "block " << block << " was held";
        std::erase_if(names, [&](const auto& name) { return name.second == block; });
      } else if (what == 2 && !held.empty()) {
        const auto it = any();
        pool.Ref(it->first);
        ++it->second;
      } else if (what == 3 && !held.empty() && !pool.named(any()->first)) {
        const core::BlockId block = any()->first;
        if (pool.named(block)) continue;
        pool.SetName(block, Name(next_name), kWriter);
        pool.SetComputed(block);
        names[next_name++] = block;
      } else if (what == 4 && !names.empty()) {
        const auto it = std::next(names.begin(), static_cast<int64_t>(random.Below(names.size())));
        ASSERT_EQ(pool.Find(Name(it->first)), it->second);
        pool.Ref(it->second);
        ++held[it->second];
      } else if (!held.empty()) {
        const auto it = any();
        const BlockWorth worth = {static_cast<int32_t>(random.Below(20000)), random.Chance(0.5),
                                  static_cast<CacheRetention>(random.Below(kNumCacheRetentions))};
        pool.Unref(it->first, worth);
        if (--it->second == 0) held.erase(it);
      }
      ASSERT_EQ(pool.num_held(), static_cast<int32_t>(held.size()));
      for (const auto& [block, references] : held) ASSERT_EQ(pool.references(block), references);
      ASSERT_NO_FATAL_FAILURE(ExpectSound(pool));
    }
  }
}

// A release build does not detect the second Unref itself; the check does.
TEST(BlockPoolTest, CheckIntegritySeesABlockGivenBackTwice) {
  BlockPool pool(2);
  const core::BlockId block = Take(&pool);
  pool.Unref(block, {});
  pool.Unref(block, {});
  EXPECT_FALSE(pool.CheckIntegrity().ok());
}

std::vector<core::BlockId> PopAll(EvictionQueue* queue) {
  std::vector<core::BlockId> order;
  while (queue->size() > 0) {
    order.push_back(queue->Pop());
    EXPECT_TRUE(queue->CheckIntegrity().ok());
  }
  return order;
}

int Class(int32_t tokens, bool reused = false, CacheRetention retention = CacheRetention::kNormal) {
  return EvictionQueue::ClassOf(tokens, reused, retention);
}

TEST(EvictionQueueTest, OfEqualWorthTheOldestGoesFirst) {
  EvictionQueue queue(4, EvictionPolicy::kCost);
  for (const core::BlockId block : {2, 0, 3, 1}) queue.Push(block, Class(100));
  queue.Remove(3);
  EXPECT_FALSE(queue.queued(3));
  EXPECT_EQ(PopAll(&queue), (std::vector<core::BlockId>{2, 0, 1}));
}

TEST(EvictionQueueTest, WhatCostsMoreToComputeOutlivesWhatCostsLess) {
  EvictionQueue queue(3, EvictionPolicy::kCost);
  queue.Push(0, Class(20000));
  queue.Push(1, Class(16));
  queue.Push(2, Class(16));
  EXPECT_EQ(PopAll(&queue), (std::vector<core::BlockId>{1, 2, 0}));
}

TEST(EvictionQueueTest, ReuseAndRetentionCountToo) {
  EvictionQueue queue(3, EvictionPolicy::kCost);
  queue.Push(0, Class(16, true));
  queue.Push(1, Class(16, false, CacheRetention::kLong));
  queue.Push(2, Class(16));
  EXPECT_EQ(PopAll(&queue), (std::vector<core::BlockId>{2, 0, 1}));
}

// GreedyDual: credit is an age, not a rank. A block of weight 2 is evicted after about as many of
// weight 1 as fill the queue twice.
TEST(EvictionQueueTest, EverythingGrowsOldInTheEnd) {
  constexpr int32_t kBlocks = 10;
  EvictionQueue queue(kBlocks, EvictionPolicy::kCost);
  queue.Push(0, Class(2800));  // Cost 2.
  for (core::BlockId block = 1; block < kBlocks; ++block) queue.Push(block, Class(16));
  int evicted = 0;
  while (queue.queued(0)) {
    const core::BlockId block = queue.Pop();
    if (block != 0) queue.Push(block, Class(16));
    ASSERT_LT(++evicted, 1000) << "it stays for ever";
  }
  EXPECT_GT(evicted, kBlocks - 1);
  EXPECT_LE(evicted, 3 * kBlocks);
}

TEST(EvictionQueueTest, LruKnowsOnlyAgeAndClaims) {
  EvictionQueue queue(4, EvictionPolicy::kLru);
  queue.Push(3, EvictionQueue::kClaimed);
  queue.Push(0, Class(90000, true, CacheRetention::kLong));
  queue.Push(1, Class(16));
  queue.Push(2, Class(16));
  EXPECT_EQ(queue.num_claimed(), 1);
  EXPECT_EQ(PopAll(&queue), (std::vector<core::BlockId>{0, 1, 2, 3}));
}

}  // namespace

}  // namespace ropeway::kvcache
