#include "base/log.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ropeway::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RepeatedLineTest, OnePerPeriodWithTheNumberSince) {
  RepeatedLine line(seconds(10));
  TimePoint now{};
  EXPECT_EQ(line.Count(now), 1) << "the first at once, even at time 0";
  int64_t lines = 0;
  int64_t counted = 0;
  for (int i = 0; i < 1000; ++i) {  // 20 a second.
    now += milliseconds(50);
    const int64_t count = line.Count(now);
    lines += count > 0 ? 1 : 0;
    counted += count;
  }
  EXPECT_EQ(lines, 5);
  EXPECT_EQ(counted, 1000);
  now += seconds(100);
  EXPECT_EQ(line.Count(now), 1);
}

}  // namespace
}  // namespace ropeway::base
