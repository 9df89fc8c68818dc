#include "kvcache/kv_windows.h"

#include <gtest/gtest.h>

namespace ropeway::kvcache {
namespace {

TEST(KvWindowsTest, BlocksForPositions) {
  EXPECT_EQ(BlocksFor(0), 0);
  EXPECT_EQ(BlocksFor(1), 1);
  EXPECT_EQ(BlocksFor(16), 1);
  EXPECT_EQ(BlocksFor(17), 2);
}

TEST(KvWindowsTest, WithoutAWindowEverythingIsKept) {
  const KvWindows windows({0});
  EXPECT_FALSE(windows.any());
  EXPECT_EQ(windows.FirstKept(0, 1000), 0);
  EXPECT_EQ(windows.MostTaken(0, 3, 100), 4);
  EXPECT_EQ(windows.MostTaken(0, 9, 100), 0);
  EXPECT_EQ(windows.BlocksForAlone(100), 7);
  EXPECT_EQ(windows.MostPositions(7), 112);
  EXPECT_EQ(windows.MostPositions(0), 0);
}

// The row at 48 sees 20 positions: 29 .. 48. One at 40 sees 21 .. 40, but a sequence that begins
// again behind the last full block computes the one at 32 first, which sees 13 .. 32.
TEST(KvWindowsTest, WhatARowBehindTheLastFullBlockSeesIsKept) {
  const KvWindows windows({0, 20});
  EXPECT_TRUE(windows.any());
  EXPECT_EQ(windows.groups(), 2);
  EXPECT_EQ(windows.FirstKept(0, 48), 0);
  EXPECT_EQ(windows.FirstKept(1, 48), 1);
  EXPECT_EQ(windows.FirstKept(1, 40), 0);
  EXPECT_EQ(windows.FirstKept(1, 47), 0);
  EXPECT_EQ(windows.FirstKept(1, 0), 0);
}

// Against the definition: position p sees [p - window + 1, p].
TEST(KvWindowsTest, FirstKeptIsTheFirstBlockThatAnyLaterRowSees) {
  for (const int32_t window : {1, 15, 16, 17, 24, 100}) {
    const KvWindows windows({window});
    for (int32_t positions = 0; positions < 300; ++positions) {
      const int32_t row = positions / 16 * 16;
      const int32_t seen = row - window + 1 > 0 ? row - window + 1 : 0;
      EXPECT_EQ(windows.FirstKept(0, positions), seen / 16) << window << " " << positions;
    }
  }
}

TEST(KvWindowsTest, AWindowTakesABoundedNumberOfBlocks) {
  const KvWindows windows({0, 20, 20});
  EXPECT_EQ(windows.MostTaken(1, 0, 30), 2);
  EXPECT_EQ(windows.MostTaken(1, 0, 1000), 3);
  EXPECT_EQ(windows.MostTaken(1, 61, 1000), 2);
  EXPECT_EQ(windows.BlocksForAlone(1000), 63 + 5 + 5);
  EXPECT_EQ(windows.BlocksForAlone(40), 9);
  EXPECT_EQ(windows.MostPositions(73), 1008);
  EXPECT_EQ(windows.MostPositions(72), 992);
  EXPECT_EQ(windows.MostPositions(9), 48);
  EXPECT_EQ(windows.MostPositions(8), 32);
}

TEST(KvWindowsTest, WindowsInAllLayersBoundNoContext) {
  const KvWindows windows({20});
  EXPECT_EQ(windows.BlocksForAlone(1'000'000), 5);
  EXPECT_GT(windows.MostPositions(5), int64_t{1} << 32);
  EXPECT_EQ(windows.MostPositions(4), 64);
}

}  // namespace
}  // namespace ropeway::kvcache
