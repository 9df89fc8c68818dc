#include "kvcache/tier_cost.h"

#include <gtest/gtest.h>

namespace ropeway::kvcache {
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

class FakeClock final : public base::Clock {
 public:
  base::TimePoint Now() const override { return now; }
  base::TimePoint now{0};
};

// Writes blocks as soon as they may be written, for `seconds`; each costs `cpu` seconds.
double BytesPerSecond(FakeClock* clock, WriteRate* rate, double seconds, size_t block, double cpu) {
  const base::TimePoint start = clock->now;
  const base::TimePoint end = start + base::Duration(static_cast<int64_t>(seconds * 1e9));
  double bytes = 0;
  while (clock->now < end) {
    const base::Duration wait = rate->Wait();
    if (wait > base::Duration(0)) {
      clock->now += wait;
      EXPECT_EQ(rate->Wait(), base::Duration(0));
      continue;
    }
    rate->Wrote(block, cpu);
    bytes += static_cast<double>(block);
  }
  return bytes / base::ToSeconds(clock->now - start);
}

TEST(WriteRate, AGivenRateHoldsInTheLongRun) {
  FakeClock clock;
  WriteRate rate(&clock, 10'000'000, 2);
  // Whatever the CPU time.
  EXPECT_NEAR(BytesPerSecond(&clock, &rate, 100, 368'640, 1.0), 10e6, 0.1e6);
}

TEST(WriteRate, ABurstIsAQuarterOfASecondAndOneWrite) {
  FakeClock clock;
  WriteRate rate(&clock, 1'000'000, 2);
  clock.now += std::chrono::hours(1);
  size_t bytes = 0;
  while (rate.Wait() == base::Duration(0)) {
    rate.Wrote(100'000, 0);
    bytes += 100'000;
  }
  EXPECT_EQ(bytes, 300'000U);
}

TEST(WriteRate, AWriteLargerThanTheBucketIsPaidForAfterwards) {
  FakeClock clock;
  WriteRate rate(&clock, 1000, 1);
  ASSERT_EQ(rate.Wait(), base::Duration(0));
  rate.Wrote(10'000, 0);
  EXPECT_NEAR(base::ToSeconds(rate.Wait()), 9.75, 0.001);
}

TEST(WriteRate, WithoutOneTheCpuTimeStaysAtItsShare) {
  for (const double cpu_per_byte : {0.5e-9, 2e-9, 20e-9}) {
    FakeClock clock;
    WriteRate rate(&clock, 0, 2);
    const size_t block = 368'640;
    const double cpu = cpu_per_byte * static_cast<double>(block);
    BytesPerSecond(&clock, &rate, 60, block, cpu);  // It learns.
    const double bytes = BytesPerSecond(&clock, &rate, 60, block, cpu);
    EXPECT_NEAR(bytes * cpu_per_byte, 0.06, 0.003) << cpu_per_byte;
  }
}

TEST(WriteRate, WhatAFlushCostsCounts) {
  FakeClock clock;
  WriteRate rate(&clock, 0, 2);
  const double before = rate.bytes_per_second();
  rate.Wrote(0, 1.0);
  EXPECT_LT(rate.bytes_per_second(), before / 50);
}

TEST(WriteRate, ItFollowsAChangeOfTheCost) {
  FakeClock clock;
  WriteRate rate(&clock, 0, 1);
  BytesPerSecond(&clock, &rate, 60, 100'000, 100'000 * 10e-9);
  EXPECT_NEAR(rate.bytes_per_second(), 0.03 / 10e-9, 0.1 * 0.03 / 10e-9);
  BytesPerSecond(&clock, &rate, 60, 100'000, 100'000 * 1e-9);
  EXPECT_NEAR(rate.bytes_per_second(), 0.03 / 1e-9, 0.3 * 0.03 / 1e-9);
}

}  // namespace

}  // namespace ropeway::kvcache
