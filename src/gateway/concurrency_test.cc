#include "gateway/concurrency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "gateway/replicas.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr PlacesOptions kPlacesBounds = {.start = 16, .least = 2, .most = 64};

// A window of requests that use all places and take so long to their first byte. All are sent when
// the one before is answered.
void OnePlacesWindow(LearnedPlaces* places, base::Duration took, int32_t prompt = 100) {
  static base::TimePoint now{};
  const int before = std::max(LearnedPlaces::kWindow, places->limit() / 2);
  for (int i = 0; i < before; ++i) {
    places->OnSent(places->limit());
    places->OnFirstByte(took, prompt, now += took);
  }
}

TEST(LearnedPlacesTest, TheyGrowWhileAllAreUsedAndNothingSlowsDown) {
  LearnedPlaces places(kPlacesBounds, true);
  OnePlacesWindow(&places, milliseconds(100));
  EXPECT_EQ(places.limit(), 18);
  for (int i = 0; i < 100; ++i) OnePlacesWindow(&places, milliseconds(100));
  EXPECT_EQ(places.limit(), 64) << "and never beyond the most";
}

TEST(LearnedPlacesTest, TheyStayWhereTheyAreNotUsed) {
  LearnedPlaces places(kPlacesBounds, true);
  for (int i = 0; i < 100; ++i) {
    places.OnSent(3);
    places.OnFirstByte(milliseconds(100), 100, seconds(1));
  }
  EXPECT_EQ(places.limit(), 16);
}

TEST(LearnedPlacesTest, TheyFallWhenRequestsWaitThere) {
  LearnedPlaces places(kPlacesBounds, true);
  OnePlacesWindow(&places, milliseconds(100));
  OnePlacesWindow(&places, milliseconds(250));
  EXPECT_EQ(places.limit(), 20) << "a batch that is twice as slow is no queue";
  OnePlacesWindow(&places, seconds(20));
  EXPECT_EQ(places.limit(), 14);
  for (const int s : {10, 5, 2, 1}) OnePlacesWindow(&places, seconds(s));
  EXPECT_EQ(places.limit(), 2) << "and never below the least";
}

// A backend of 20 places, whose requests are a second there, has `others` from elsewhere.
base::Duration TimeBeside(int others, int places) {
  return milliseconds(100) + milliseconds(50) * std::max(0, others + places - 20);
}

TEST(LearnedPlacesTest, RequestsOfOthersDoNotTakeThemAll) {
  LearnedPlaces places({.start = 16, .least = 1, .most = 256}, true);
  OnePlacesWindow(&places, TimeBeside(0, 16));
  ASSERT_EQ(places.limit(), 18);
  int least = 18;
  int most = 0;
  int sum = 0;
  for (int i = 0; i < 100; ++i) {
    OnePlacesWindow(&places, TimeBeside(60, places.limit()));
    least = std::min(least, places.limit());
    most = std::max(most, places.limit());
    sum += places.limit();
  }
  EXPECT_EQ(least, 5);
  EXPECT_GT(sum, 100 * 15) << "the time of others' requests is what is usual then";
  EXPECT_LE(most, 18) << "they tell nothing of how many are right";
  // Once they are gone, what is usual is less again, and so is what is a queue.
  for (int i = 0; i < 3; ++i) OnePlacesWindow(&places, TimeBeside(0, places.limit()));
  EXPECT_GT(places.limit(), 18);
  const int before = places.limit();
  OnePlacesWindow(&places, TimeBeside(60, before));
  EXPECT_LT(places.limit(), before);
}

// Without others the places come down to what the backend has.
TEST(LearnedPlacesTest, AQueueOfOnesOwnIsGivenUp) {
  LearnedPlaces places({.start = 16, .least = 1, .most = 256}, true);
  OnePlacesWindow(&places, TimeBeside(0, 16));
  places.set_most(256, true);
  for (int i = 0; i < 12; ++i) OnePlacesWindow(&places, TimeBeside(0, places.limit()));
  EXPECT_LT(places.limit(), 40);
  EXPECT_GE(places.limit(), 14);
}

// How long a request waits is decided when it is sent, so that fewer places show late.
TEST(LearnedPlacesTest, WhetherItHelpedIsSaidByRequestsThatWereSentAfterwards) {
  LearnedPlaces places(kPlacesBounds, true);
  const auto answer = [&](int requests, base::Duration took, base::TimePoint now) {
    for (int i = 0; i < requests; ++i) places.OnFirstByte(took, 100, now);
  };
  answer(8, seconds(1), seconds(1));
  ASSERT_EQ(places.limit(), 16);
  answer(24, seconds(4), seconds(10));  // Three windows.
  ASSERT_EQ(places.limit(), 4);
  answer(20, seconds(4), seconds(13));
  EXPECT_EQ(places.limit(), 4) << "they were sent before";
  LearnedPlaces alone = places;
  for (int i = 0; i < 8; ++i) alone.OnFirstByte(seconds(1), 100, seconds(14));
  EXPECT_EQ(alone.limit(), 4) << "it helped";
  answer(8, seconds(4), seconds(14));
  EXPECT_EQ(places.limit(), 16) << "it did not help";
}

// What a backend says of itself is no try that did not help.
TEST(LearnedPlacesTest, ABusyBackendsPlacesDoNotComeBackForOthers) {
  LearnedPlaces places({.start = 64, .least = 1, .most = 64}, true);
  OnePlacesWindow(&places, milliseconds(100));
  for (int i = 0; i < 2; ++i) OnePlacesWindow(&places, seconds(20));
  places.OnBusy(4, seconds(1));
  ASSERT_EQ(places.limit(), 2);
  for (int i = 0; i < 2; ++i) OnePlacesWindow(&places, seconds(20));
  EXPECT_LE(places.limit(), 2);
}

TEST(LearnedPlacesTest, LongPromptsAreNoQueue) {
  LearnedPlaces places(kPlacesBounds, true);
  OnePlacesWindow(&places, milliseconds(100), 100);
  OnePlacesWindow(&places, milliseconds(1000), 1000);
  EXPECT_EQ(places.limit(), 20);
}

TEST(LearnedPlacesTest, NoiseOfShortTimesIsNoQueue) {
  LearnedPlaces places(kPlacesBounds, true);
  OnePlacesWindow(&places, milliseconds(1));
  OnePlacesWindow(&places, milliseconds(50));
  EXPECT_EQ(places.limit(), 20);
}

TEST(LearnedPlacesTest, WithReportedPlacesTheTimeSaysNothing) {
  LearnedPlaces places(kPlacesBounds, false);
  OnePlacesWindow(&places, milliseconds(100));
  OnePlacesWindow(&places, seconds(10));
  EXPECT_EQ(places.limit(), 20);
}

TEST(LearnedPlacesTest, TheyFallWhenMoreThanAQuarterFails) {
  LearnedPlaces places(kPlacesBounds, true);
  for (int i = 0; i < 5; ++i) places.OnFirstByte(milliseconds(10), 10, seconds(1));
  for (int i = 0; i < 3; ++i) places.OnFailure(seconds(1));
  EXPECT_EQ(places.limit(), 11);
  LearnedPlaces others(kPlacesBounds, true);
  for (int i = 0; i < 6; ++i) others.OnFirstByte(milliseconds(10), 10, seconds(1));
  for (int i = 0; i < 2; ++i) others.OnFailure(seconds(1));
  EXPECT_EQ(others.limit(), 16) << "one of four happens";
}

TEST(LearnedPlacesTest, ABusyBackendLowersThemAtOnceToWhatItHas) {
  LearnedPlaces places(kPlacesBounds, true);
  places.OnBusy(10, seconds(5));
  EXPECT_EQ(places.limit(), 7);
  places.OnBusy(7, seconds(5) + milliseconds(999));
  EXPECT_EQ(places.limit(), 7) << "what was sent together is told together";
  places.OnBusy(7, seconds(6));
  EXPECT_EQ(places.limit(), 4);
  OnePlacesWindow(&places, milliseconds(10));
  EXPECT_EQ(places.limit(), 6) << "and they grow again";
}

TEST(LearnedPlacesTest, ABackendMayHaveALeastOfItsOwn) {
  ReplicaRules rules;
  rules.table_entries = 1 << 8;
  const auto after_trouble = [&](const BackendOptions& options) {
    Replica replica(options, rules);
    for (int i = 1; i <= 10; ++i) {
      replica.OnFailure(FailureKind::kBusy, 0, false, seconds(2 * i));
    }
    return replica.limit(seconds(100));
  };
  EXPECT_EQ(after_trouble({.name = "any"}), 1);
  EXPECT_EQ(after_trouble({.name = "of 12", .min_concurrency = 12}), 12);
  EXPECT_EQ(after_trouble({.name = "from 40 on", .min_concurrency = 40}), 40);
  EXPECT_EQ(after_trouble({.name = "set", .max_concurrency = 9, .min_concurrency = 9}), 9);
}

TEST(LearnedPlacesTest, TheMostMoves) {
  LearnedPlaces places(kPlacesBounds, true);
  places.set_most(4, true);
  EXPECT_EQ(places.limit(), 4);
  places.set_most(1, false);
  EXPECT_EQ(places.limit(), 1) << "below the least, if that is all that there is";
  places.set_most(9, false);
  EXPECT_EQ(places.limit(), 2);
}

}  // namespace
}  // namespace ropeway::gateway
