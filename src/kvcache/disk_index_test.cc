#include "kvcache/disk_index.h"

#include <gtest/gtest.h>

#include "kvcache/test_disk_tier.h"

namespace ropeway::kvcache {
namespace {

using BlockBytes = std::vector<std::byte>;

uint64_t Drop(DiskIndex* index, uint32_t generation) {
  uint64_t dropped = 0;
  while (!index->DropSome(generation, 1, &dropped)) {
  }
  return dropped;
}

void Write(DiskIndex* index, uint64_t block, uint64_t sequence, uint32_t generation) {
  index->Queue(TestName(block), sequence, std::make_shared<const BlockBytes>(8));
  index->Reserve(generation);
  EXPECT_TRUE(index->Written(TestName(block), sequence, generation));
}

TEST(DiskIndex, QueuedWrittenFlushed) {
  DiskIndex index;
  EXPECT_EQ(index.Find(TestName(1)), nullptr);
  Write(&index, 1, 1, 5);
  EXPECT_EQ(index.Find(TestName(1))->generation, 5U);
  EXPECT_EQ(index.Find(TestName(1))->queued, nullptr);
  EXPECT_EQ(index.flushed(), 0U);
  const core::BlockName names[] = {TestName(1)};
  index.Flushed(names, 5);
  index.Flushed(names, 5);
  EXPECT_EQ(index.flushed(), 1U);
}

TEST(DiskIndex, WhatWasErasedWhileItWasWrittenIsNotWanted) {
  DiskIndex index;
  index.Queue(TestName(1), 1, std::make_shared<const BlockBytes>(8));
  EXPECT_TRUE(index.Erase(TestName(1)));
  EXPECT_FALSE(index.Erase(TestName(1)));
  index.Reserve(5);
  EXPECT_FALSE(index.Written(TestName(1), 1, 5));
  index.Queue(TestName(1), 2, std::make_shared<const BlockBytes>(8));
  EXPECT_FALSE(index.Written(TestName(1), 1, 5));
  EXPECT_TRUE(index.Written(TestName(1), 2, 5));
}

TEST(DiskIndex, ADroppedGenerationTakesItsBlocksAlong) {
  DiskIndex index;
  for (uint64_t i = 0; i < 10; ++i) Write(&index, i, i + 1, i < 6 ? 1 : 2);
  EXPECT_EQ(Drop(&index, 1), 6U);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(index.Find(TestName(i)) != nullptr, i >= 6) << i;
  EXPECT_EQ(Drop(&index, 3), 0U);
}

TEST(DiskIndex, WhatMovedToANewerGenerationStays) {
  DiskIndex index;
  index.AddStored({TestName(1), TestName(2), TestName(3)}, 1);
  EXPECT_EQ(index.flushed(), 3U);
  Write(&index, 1, 1, 2);                                              // Has moved.
  index.Queue(TestName(2), 2, std::make_shared<const BlockBytes>(8));  // Is about to.
  EXPECT_EQ(index.Find(TestName(2))->generation, 1U);
  EXPECT_EQ(Drop(&index, 1), 1U);
  EXPECT_EQ(index.Find(TestName(1))->generation, 2U);
  EXPECT_EQ(index.Find(TestName(2))->generation, 0U);
  EXPECT_EQ(index.Find(TestName(3)), nullptr);
  EXPECT_EQ(index.flushed(), 1U);  // Block 1, in both.
}

TEST(DiskIndex, OfTwoStoredCopiesTheNewerCounts) {
  DiskIndex index;
  index.AddStored({TestName(1)}, 1);
  index.AddStored({TestName(1)}, 2);
  EXPECT_EQ(index.flushed(), 1U);
  EXPECT_EQ(Drop(&index, 1), 0U);
  EXPECT_NE(index.Find(TestName(1)), nullptr);
}

TEST(DiskReads, ComeInOrder) {
  DiskReads reads;
  reads.Begin(7, {TestName(1), TestName(2)});
  reads.Begin(8, {TestName(3)});
  for (int i = 0; i < 3; ++i) reads.Deliver(reads.Next().get(), BlockBytes(10));
  EXPECT_EQ(reads.Next(), nullptr);
  EXPECT_EQ(reads.bytes(), 30U);
  std::vector<KvRead> taken = reads.Take(2);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].ticket, 7U);
  EXPECT_EQ(taken[0].index, 0U);
  EXPECT_EQ(taken[1].index, 1U);
  taken = reads.Take(2);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].ticket, 8U);
  EXPECT_FALSE(reads.any());
  EXPECT_EQ(reads.bytes(), 0U);
}

TEST(DiskReads, ABlockThatCannotBeHadEndsTheRead) {
  DiskReads reads;
  reads.Begin(7, {TestName(1), TestName(2), TestName(3)});
  reads.Deliver(reads.Next().get(), BlockBytes(10));
  reads.Deliver(reads.Next().get(), {});
  EXPECT_EQ(reads.Next(), nullptr);
  const std::vector<KvRead> taken = reads.Take(9);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_TRUE(taken[1].bytes.empty());
  EXPECT_EQ(taken[1].index, 1U);
}

TEST(DiskReads, NothingComesOfACancelledOne) {
  DiskReads reads;
  reads.Begin(7, {TestName(1), TestName(2)});
  reads.Begin(8, {TestName(3)});
  const std::shared_ptr<DiskReads::Job> under_way = reads.Next();
  reads.Deliver(under_way.get(), BlockBytes(10));
  reads.Cancel(7);
  reads.Begin(7, {TestName(4)});  // The ticket may be used again at once.
  reads.Deliver(under_way.get(), BlockBytes(10));
  EXPECT_FALSE(reads.any());
  EXPECT_EQ(reads.bytes(), 0U);
  reads.Deliver(reads.Next().get(), BlockBytes(1));
  reads.Deliver(reads.Next().get(), BlockBytes(2));
  const std::vector<KvRead> taken = reads.Take(9);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].ticket, 8U);
  EXPECT_EQ(taken[1].ticket, 7U);
  EXPECT_EQ(taken[1].bytes.size(), 2U);
}

TEST(DiskReads, AllEnd) {
  DiskReads reads;
  reads.Begin(7, {TestName(1), TestName(2)});
  reads.Begin(8, {TestName(3)});
  reads.Deliver(reads.Next().get(), BlockBytes(10));
  reads.EndAll();
  const std::vector<KvRead> taken = reads.Take(9);
  ASSERT_EQ(taken.size(), 3U);
  EXPECT_EQ(taken[0].bytes.size(), 10U);
  EXPECT_TRUE(taken[1].bytes.empty());
  EXPECT_TRUE(taken[2].bytes.empty());
}

}  // namespace

}  // namespace ropeway::kvcache
