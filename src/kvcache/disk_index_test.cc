#include "kvcache/disk_index.h"

#include <gtest/gtest.h>

#include "kvcache/test_disk_tier.h"

namespace ropeway {
namespace {

using Bytes = std::vector<std::byte>;

uint64_t Drop(DiskIndex* index, uint32_t generation) {
  uint64_t dropped = 0;
  while (!index->DropSome(generation, 1, &dropped)) {
  }
  return dropped;
}

void Write(DiskIndex* index, uint64_t block, uint64_t sequence, uint32_t generation) {
  index->Queue(TestName(block), sequence, std::make_shared<const Bytes>(8));
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
  const BlockName names[] = {TestName(1)};
  index.Flushed(names, 5);
  index.Flushed(names, 5);
  EXPECT_EQ(index.flushed(), 1U);
}

TEST(DiskIndex, WhatWasErasedWhileItWasWrittenIsNotWanted) {
  DiskIndex index;
  index.Queue(TestName(1), 1, std::make_shared<const Bytes>(8));
  EXPECT_TRUE(index.Erase(TestName(1)));
  EXPECT_FALSE(index.Erase(TestName(1)));
  index.Reserve(5);
  EXPECT_FALSE(index.Written(TestName(1), 1, 5));
  index.Queue(TestName(1), 2, std::make_shared<const Bytes>(8));
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
  Write(&index, 1, 1, 2);                                         // Has moved.
  index.Queue(TestName(2), 2, std::make_shared<const Bytes>(8));  // Is about to.
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

}  // namespace
}  // namespace ropeway
