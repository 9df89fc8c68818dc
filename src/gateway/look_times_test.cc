#include "gateway/look_times.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <vector>

namespace ropeway::gateway {
namespace {

using std::chrono::seconds;

TEST(LookTimesTest, WhatIsLookedAtAgainComesBeforeWhatIsLater) {
  LookTimes times;
  EXPECT_EQ(times.next(), base::TimePoint::max());
  times.Add(seconds(5), 1);
  times.Add(seconds(9), 2);
  times.Add(seconds(3), 3);  // Out of order, as where admit_after has changed.
  EXPECT_EQ(times.next(), seconds(3));
  std::vector<RequestId> looked_at;
  times.TakeDue(seconds(5), [&](RequestId id) -> std::optional<base::TimePoint> {
    looked_at.push_back(id);
    if (id == 1) return seconds(6);
    return std::nullopt;
  });
  EXPECT_EQ(looked_at, std::vector<RequestId>({3, 1}));
  EXPECT_EQ(times.next(), seconds(6)) << "not behind the one of 9 s";
  times.TakeDue(seconds(6), [&](RequestId id) -> std::optional<base::TimePoint> {
    EXPECT_EQ(id, 1);
    return std::nullopt;
  });
  EXPECT_EQ(times.next(), seconds(9));
}

TEST(LookTimesTest, WhereALookThrowsNothingIsLost) {
  LookTimes times;
  for (RequestId id = 1; id <= 3; ++id) times.Add(seconds(1), id);
  const auto fail_at_2 = [](RequestId id) -> std::optional<base::TimePoint> {
    if (id == 2) throw std::runtime_error("no memory");
    return std::nullopt;
  };
  EXPECT_THROW(times.TakeDue(seconds(1), fail_at_2), std::runtime_error);
  std::vector<RequestId> left;
  times.TakeDue(seconds(1), [&](RequestId id) -> std::optional<base::TimePoint> {
    left.push_back(id);
    return std::nullopt;
  });
  EXPECT_EQ(left, std::vector<RequestId>({2, 3}));
}

}  // namespace
}  // namespace ropeway::gateway
