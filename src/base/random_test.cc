#include "base/random.h"

#include <gtest/gtest.h>

#include <array>

namespace ropeway {
namespace {

TEST(SeededRandomTest, GivesTheDocumentedNumbers) {
  // The published outputs of SplitMix64 for seed 1234567.
  SeededRandom random(1234567);
  EXPECT_EQ(random.Next64(), 6457827717110365317U);
  EXPECT_EQ(random.Next64(), 3203168211198807973U);
  EXPECT_EQ(random.Next64(), 9817491932198370423U);
}

TEST(RandomTest, StaysInRangeAndReachesAllOfIt) {
  SeededRandom random(1);
  std::array<int, 6> seen{};
  for (int i = 0; i < 6000; ++i) ++seen.at(static_cast<size_t>(random.Between(-2, 3) + 2));
  for (int n : seen) EXPECT_NEAR(n, 1000, 150);
  EXPECT_EQ(random.Below(1), 0U);
}

TEST(RandomTest, ChancesComeTrueAsOftenAsTheySay) {
  SeededRandom random(2);
  int hits = 0;
  for (int i = 0; i < 10000; ++i) hits += random.Chance(0.3) ? 1 : 0;
  EXPECT_NEAR(hits, 3000, 200);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(random.Chance(0));
    EXPECT_TRUE(random.Chance(1));
  }
}

TEST(SystemRandomTest, Differs) {
  SystemRandom random;
  EXPECT_NE(random.Next64(), random.Next64());
}

TEST(FaultPointsTest, OnlyEnabledPointsFireAndAreCounted) {
  SeededRandom random(3);
  FaultPoints faults(&random);
  EXPECT_FALSE(faults.Fires("slow_step"));
  faults.Enable("slow_step", 1);
  faults.Enable("never", 0);
  EXPECT_TRUE(faults.Fires("slow_step"));
  EXPECT_TRUE(faults.Fires("slow_step"));
  EXPECT_FALSE(faults.Fires("never"));
  EXPECT_EQ(faults.fired().at("slow_step"), 2U);
  EXPECT_EQ(faults.fired().at("never"), 0U);
  EXPECT_EQ(faults.fired().size(), 2U);
}

}  // namespace
}  // namespace ropeway
