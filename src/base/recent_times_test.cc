#include "base/recent_times.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ropeway::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr TimePoint kBegin = std::chrono::hours(5);

TEST(RecentTimes, PercentilesAreThoseOfTheValues) {
  RecentTimes times;
  EXPECT_EQ(times.LastMinute(kBegin).count, 0U);
  EXPECT_EQ(times.LastMinute(kBegin).p50, 0.0);
  for (int i = 1; i <= 1000; ++i) times.Add(milliseconds(i), kBegin);
  const RecentTimes::Summary summary = times.LastMinute(kBegin);
  EXPECT_EQ(summary.count, 1000U);
  EXPECT_NEAR(summary.p50, 0.500, 0.025);
  EXPECT_NEAR(summary.p95, 0.950, 0.048);
  EXPECT_NEAR(summary.p99, 0.990, 0.050);
  EXPECT_EQ(times.LastHour(kBegin).count, 1000U);
}

TEST(RecentTimes, ValuesLeaveTheirWindow) {
  RecentTimes times;
  times.Add(seconds(1), kBegin);
  times.Add(seconds(4), kBegin + seconds(30));
  EXPECT_EQ(times.LastMinute(kBegin + seconds(59)).count, 2U);
  EXPECT_EQ(times.LastMinute(kBegin + seconds(60)).count, 1U);
  EXPECT_NEAR(times.LastMinute(kBegin + seconds(60)).p50, 4.0, 0.2);
  EXPECT_EQ(times.LastMinute(kBegin + seconds(90)).count, 0U);
  EXPECT_EQ(times.LastHour(kBegin + minutes(59)).count, 2U);
  EXPECT_EQ(times.LastHour(kBegin + minutes(60)).count, 0U);
  // The slot of a second is used again by the one a minute later.
  times.Add(seconds(9), kBegin + seconds(60));
  EXPECT_EQ(times.LastMinute(kBegin + seconds(60)).count, 2U);
}

TEST(RecentTimes, ExtremesAreKept) {
  RecentTimes times;
  times.Add(Duration{}, kBegin);
  times.Add(-seconds(1), kBegin);
  EXPECT_NEAR(times.LastMinute(kBegin).p99, 1e-4, 1e-5);
  for (int i = 0; i < 300; ++i) times.Add(std::chrono::hours(3), kBegin);
  EXPECT_GT(times.LastMinute(kBegin).p50, 1000.0);
}

}  // namespace
}  // namespace ropeway::base
