#include "kvcache/eviction_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace ropeway {
namespace {

std::vector<BlockId> PopAll(EvictionQueue* queue) {
  std::vector<BlockId> order;
  while (queue->size() > 0) {
    order.push_back(queue->Pop());
    EXPECT_TRUE(queue->CheckIntegrity().ok());
  }
  return order;
}

int Class(int32_t tokens, bool reused = false, Retention retention = Retention::kNormal) {
  return EvictionQueue::ClassOf(tokens, reused, retention);
}

TEST(EvictionQueueTest, OfEqualWorthTheOldestGoesFirst) {
  EvictionQueue queue(4, EvictionPolicy::kCost);
  for (const BlockId block : {2, 0, 3, 1}) queue.Push(block, Class(100));
  queue.Remove(3);
  EXPECT_FALSE(queue.queued(3));
  EXPECT_EQ(PopAll(&queue), (std::vector<BlockId>{2, 0, 1}));
}

TEST(EvictionQueueTest, WhatCostsMoreToComputeOutlivesWhatCostsLess) {
  EvictionQueue queue(3, EvictionPolicy::kCost);
  queue.Push(0, Class(20000));
  queue.Push(1, Class(16));
  queue.Push(2, Class(16));
  EXPECT_EQ(PopAll(&queue), (std::vector<BlockId>{1, 2, 0}));
}

TEST(EvictionQueueTest, ReuseAndRetentionCountToo) {
  EvictionQueue queue(3, EvictionPolicy::kCost);
  queue.Push(0, Class(16, true));
  queue.Push(1, Class(16, false, Retention::kHigh));
  queue.Push(2, Class(16));
  EXPECT_EQ(PopAll(&queue), (std::vector<BlockId>{2, 0, 1}));
}

// GreedyDual: credit is an age, not a rank. A block of weight 2 goes once about as many of weight 1
// have come and gone as fill the queue twice.
TEST(EvictionQueueTest, EverythingGrowsOldInTheEnd) {
  constexpr int32_t kBlocks = 10;
  EvictionQueue queue(kBlocks, EvictionPolicy::kCost);
  queue.Push(0, Class(2800));  // Cost 2.
  for (BlockId block = 1; block < kBlocks; ++block) queue.Push(block, Class(16));
  int evicted = 0;
  while (queue.queued(0)) {
    const BlockId block = queue.Pop();
    if (block != 0) queue.Push(block, Class(16));
    ASSERT_LT(++evicted, 1000) << "it stays for ever";
  }
  EXPECT_GT(evicted, kBlocks - 1);
  EXPECT_LE(evicted, 3 * kBlocks);
}

TEST(EvictionQueueTest, LruKnowsOnlyAgeAndClaims) {
  EvictionQueue queue(4, EvictionPolicy::kLru);
  queue.Push(3, EvictionQueue::kClaimed);
  queue.Push(0, Class(90000, true, Retention::kHigh));
  queue.Push(1, Class(16));
  queue.Push(2, Class(16));
  EXPECT_EQ(queue.num_claimed(), 1);
  EXPECT_EQ(PopAll(&queue), (std::vector<BlockId>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace ropeway
