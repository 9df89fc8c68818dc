#include "service/intake.h"

#include <chrono>

#include "gtest/gtest.h"

namespace ropeway::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr base::TimePoint kArrival = seconds(5);

TEST(DeadlineOf, IsTheSmallerOfBothTimeouts) {
  Request request;
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(3)), seconds(8));
  request.timeout = seconds(2);
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(3)), seconds(7));
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(1)), seconds(6));
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(0)), seconds(7));
}

TEST(DeadlineOf, IsNeverWithoutATimeoutOrWithOneThatOverflows) {
  Request request;
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(0)), base::TimePoint::max());
  EXPECT_EQ(DeadlineOf(request, kArrival, milliseconds::max()), base::TimePoint::max());
  request.timeout = milliseconds::max();
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(0)), base::TimePoint::max());
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(3)), seconds(8));
}

}  // namespace
}  // namespace ropeway::service
