#include "kvcache/read_cost.h"

#include <gtest/gtest.h>

namespace ropeway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ReadCostTest, TakesTheCheaperWay) {
  ReadCost cost;
  EXPECT_TRUE(cost.ReadIsCheaper(1 << 20, 16)) << "nothing is measured yet";
  cost.OnRead(100'000'000, seconds(1));
  EXPECT_TRUE(cost.ReadIsCheaper(1 << 20, 16)) << "computing is not";
  cost.OnPrefill(1000, seconds(1));
  EXPECT_TRUE(cost.ReadIsCheaper(1'000'000, 16)) << "10 ms against 16 ms";
  EXPECT_FALSE(cost.ReadIsCheaper(2'000'000, 16)) << "20 ms against 16 ms";
}

TEST(ReadCostTest, FollowsWhatItMeasures) {
  ReadCost cost;
  cost.OnPrefill(1000, seconds(1));
  cost.OnRead(1'000'000, seconds(1));
  EXPECT_FALSE(cost.ReadIsCheaper(1'000'000, 100));
  for (int i = 0; i < 50; ++i) cost.OnRead(1'000'000, milliseconds(1));
  EXPECT_TRUE(cost.ReadIsCheaper(1'000'000, 100));
}

TEST(ReadCostTest, TriesASlowDiskAgainNowAndThen) {
  ReadCost cost;
  cost.OnPrefill(1000, seconds(1));
  cost.OnRead(1000, seconds(1));
  int tries = 0;
  for (int i = 0; i < 10 * (ReadCost::kProbeAfter + 1); ++i) {
    if (cost.ReadIsCheaper(1'000'000, 16)) ++tries;
  }
  EXPECT_EQ(tries, 10);
}

TEST(ReadCostTest, AReadHasATimeLimit) {
  ReadCost cost;
  EXPECT_EQ(cost.ReadLimit(1), ReadCost::kLeastLimit);
  EXPECT_EQ(cost.ReadLimit(100'000'000), seconds(10)) << "ten times what is assumed";
  cost.OnRead(1'000'000, seconds(1));
  EXPECT_EQ(cost.ReadLimit(1'000'000), seconds(10));
  EXPECT_EQ(cost.ReadLimit(1'000'000'000), seconds(20));
}

}  // namespace
}  // namespace ropeway
