#include "scheduler/batch_former.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/random.h"

namespace ropeway::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using QueueView = BatchFormer::QueueView;

constexpr base::TimePoint kNever = base::TimePoint::max();

SchedulingOptions Options(const char* strategy, int size, milliseconds timeout = {}) {
  return {.strategy = strategy,
          .max_batch_size = size,
          .static_flush = timeout,
          .batch_timeout = timeout,
          .target_latency = seconds(2)};
}

TEST(BatchFormerTest, ContinuousFillsTheSlots) {
  BatchFormer former(Options("continuous", 4));
  EXPECT_EQ(former.MayStart({.waiting = 9, .running = 3, .free_slots = 5}, seconds(1)), 5);
  EXPECT_EQ(former.next_look(), kNever);
  EXPECT_EQ(former.collecting_since(), kNever);
}

TEST(BatchFormerTest, SerialStartsOneWhenNothingRuns) {
  BatchFormer former(Options("serial", 4));
  EXPECT_EQ(former.MayStart({.waiting = 9, .running = 0, .free_slots = 5}, seconds(1)), 1);
  EXPECT_EQ(former.MayStart({.waiting = 9, .running = 1, .free_slots = 4}, seconds(1)), 0);
  EXPECT_EQ(former.MayStart({.waiting = 0, .running = 0, .free_slots = 5}, seconds(1)), 0);
  EXPECT_EQ(former.collecting_since(), kNever);
}

TEST(BatchFormerTest, ABatchStartsWhenItIsFullOrItsOldestHasWaited) {
  for (const char* strategy : {"static", "dynamic"}) {
    BatchFormer former(Options(strategy, 4, milliseconds(50)));
    QueueView view{.waiting = 3, .oldest = seconds(10), .running = 0, .free_slots = 16};
    EXPECT_EQ(former.MayStart(view, seconds(10) + milliseconds(20)), 0);
    EXPECT_EQ(former.next_look(), seconds(10) + milliseconds(50));
    EXPECT_EQ(former.collecting_since(), seconds(10) + milliseconds(20));
    EXPECT_EQ(former.MayStart(view, seconds(10) + milliseconds(49)), 0);
    EXPECT_EQ(former.collecting_since(), seconds(10) + milliseconds(20));
    EXPECT_EQ(former.MayStart(view, former.next_look()), 3) << "the timer is exact";
    EXPECT_EQ(former.next_look(), kNever);
    EXPECT_EQ(former.collecting_since(), seconds(10) + milliseconds(20)) << "until OnStarted";
    former.OnStarted(3, 30, seconds(11));
    EXPECT_EQ(former.collecting_since(), kNever);

    view.waiting = 9;
    view.running = 3;
    view.free_slots = 13;
    EXPECT_EQ(former.MayStart(view, seconds(20)), 0) << "the present batch runs";
    EXPECT_EQ(former.next_look(), kNever);
    EXPECT_EQ(former.collecting_since(), kNever) << "this is not waiting for others";
    former.OnBatchEnded(seconds(20));
    view.running = 0;
    view.oldest = seconds(20);
    EXPECT_EQ(former.MayStart(view, seconds(20)), 4);
    view.free_slots = 3;
    EXPECT_EQ(former.MayStart(view, seconds(20)), 3) << "fewer slots than a batch has";
  }
}

TEST(BatchFormerTest, AnUrgentOneAndTheEndFlush) {
  for (const char* strategy : {"static", "dynamic"}) {
    BatchFormer former(Options(strategy, 8, seconds(5)));
    QueueView view{.waiting = 2, .oldest = seconds(1), .running = 0, .free_slots = 16};
    EXPECT_EQ(former.MayStart(view, seconds(1)), 0);
    view.urgent = true;
    EXPECT_EQ(former.MayStart(view, seconds(1)), 2);
    view.running = 1;
    EXPECT_EQ(former.MayStart(view, seconds(1)), 0) << "it does not join a batch that runs";
    view.running = 0;
    view.urgent = false;
    view.flush = true;
    EXPECT_EQ(former.MayStart(view, seconds(1)), 2);
    view.waiting = 0;
    EXPECT_EQ(former.MayStart(view, seconds(1)), 0);
  }
}

TEST(BatchFormerTest, WithoutAWaitingSequenceItDoesNotCollect) {
  BatchFormer former(Options("dynamic", 8, seconds(5)));
  QueueView view{.waiting = 1, .oldest = seconds(1), .running = 0, .free_slots = 16};
  EXPECT_EQ(former.MayStart(view, seconds(1)), 0);
  EXPECT_EQ(former.collecting_since(), seconds(1));
  view.waiting = 0;  // Cancelled.
  EXPECT_EQ(former.MayStart(view, seconds(2)), 0);
  EXPECT_EQ(former.collecting_since(), kNever);
  EXPECT_EQ(former.next_look(), kNever);
}

SchedulingOptions Auto(int size) { return Options("dynamic", size, milliseconds(-1)); }

TEST(BatchFormerTest, PredictsBySizeAndByTheNearest) {
  BatchFormer former(Auto(16));
  EXPECT_EQ(former.PredictedTime(4, 100), base::Duration(0));
  const auto batch = [&former](int rows, int32_t tokens, base::Duration took) {
    former.OnStarted(rows, tokens, seconds(50));
    former.OnBatchEnded(seconds(50) + took);
  };
  batch(4, 100, milliseconds(400));
  EXPECT_EQ(former.PredictedTime(5, 127), milliseconds(400)) << "the same powers of two";
  batch(5, 127, milliseconds(800));
  EXPECT_EQ(former.PredictedTime(4, 100), milliseconds(500)) << "a quarter of the way";
  batch(16, 2000, seconds(3));
  EXPECT_EQ(former.PredictedTime(16, 1500), seconds(3));
  EXPECT_EQ(former.PredictedTime(2, 60), milliseconds(500));
  EXPECT_EQ(former.PredictedTime(30000, 2'000'000'000), seconds(3));
  former.OnBatchEnded(seconds(1000));  // None ran.
  EXPECT_EQ(former.PredictedTime(16, 1500), seconds(3));
}

TEST(BatchFormerTest, AutoStartsAtOnceWhereTheBatchWillNotFill) {
  BatchFormer former(Auto(8));
  former.OnArrival(seconds(1));
  QueueView view{.waiting = 1, .oldest = seconds(1), .running = 0, .free_slots = 16};
  EXPECT_EQ(former.MayStart(view, seconds(1)), 1) << "nothing is known of arrivals";
  former.OnArrival(seconds(2));
  view.oldest = seconds(2);
  EXPECT_EQ(former.MayStart(view, seconds(2)), 1) << "7 more would take 7 seconds";
}

TEST(BatchFormerTest, AutoWaitsWhileTheBatchIsLikelyToFill) {
  BatchFormer former(Auto(8));
  for (int i = 0; i < 5; ++i) former.OnArrival(seconds(1) + i * milliseconds(100));
  // The oldest came at 1.0, the fifth at 1.4: three more will be there at 1.7, well before 3.0.
  QueueView view{.waiting = 5, .oldest = seconds(1), .running = 0, .free_slots = 16};
  const base::TimePoint now = seconds(1) + milliseconds(400);
  EXPECT_EQ(former.MayStart(view, now), 0);
  // Silence: 1.6 seconds are left, and at 1.8 the three would take three times 0.4 more.
  EXPECT_EQ(former.next_look(), seconds(1) + milliseconds(800));
  EXPECT_EQ(former.MayStart(view, former.next_look() - milliseconds(1)), 0);
  EXPECT_EQ(former.MayStart(view, former.next_look()), 5);
  // The predicted time leaves less to wait.
  former.OnStarted(5, 100, seconds(5));
  former.OnBatchEnded(seconds(5) + milliseconds(1400));
  view.prompt_tokens = 100;
  EXPECT_EQ(former.MayStart(view, now), 5) << "0.2 seconds are left, 0.3 are missing";
}

// Random arrivals: no request waits longer than target_latency less the predicted time, if that is
// positive, and the timer is never late.
TEST(BatchFormerTest, AutoNeverWaitsBeyondItsTarget) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    base::SeededRandom random(seed);
    BatchFormer former(Auto(1 + static_cast<int>(random.Below(16))));
    const auto gap = static_cast<int64_t>(1 + random.Below(900));
    std::deque<base::TimePoint> waiting;
    base::TimePoint now = seconds(1);
    base::TimePoint next_arrival = now;
    for (int i = 0; i < 2000; ++i) {
      if (now >= next_arrival) {
        former.OnArrival(now);
        waiting.push_back(now);
        next_arrival = now + milliseconds(random.Below(static_cast<uint64_t>(2 * gap)));
      }
      const auto count = static_cast<int>(waiting.size());
      const QueueView view{.waiting = count,
                           .oldest = waiting.empty() ? kNever : waiting.front(),
                           .running = 0,
                           .free_slots = 16,
                           .prompt_tokens = 50 * count};
      const int start = former.MayStart(view, now);
      ASSERT_LE(start, count);
      if (start == 0) {
        if (!waiting.empty()) {
          const base::Duration most =
              std::max(base::Duration(0),
                       base::Duration(seconds(2)) - former.PredictedTime(count, 50 * count));
          ASSERT_LE(former.next_look(), std::max(now, waiting.front() + most)) << seed;
          ASSERT_GT(former.next_look(), now);
          ASSERT_NE(former.collecting_since(), kNever);
        }
        now = std::min(next_arrival, former.next_look());
        continue;
      }
      former.OnStarted(start, 50 * start, now);
      waiting.erase(waiting.begin(), waiting.begin() + start);
      // While the batch runs others arrive.
      const base::TimePoint end = now + milliseconds(100 + random.Below(1500));
      for (; next_arrival < end; next_arrival += milliseconds(random.Between(1, 2 * gap))) {
        former.OnArrival(next_arrival);
        waiting.push_back(next_arrival);
      }
      now = end;
      former.OnBatchEnded(now);
    }
  }
}

TEST(BatchFormerTest, ALongSilenceIsForgottenSoon) {
  BatchFormer former(Auto(16));
  former.OnArrival(seconds(1));
  base::TimePoint now = seconds(100'000);
  for (int i = 0; i < 30; ++i, now += milliseconds(10)) former.OnArrival(now);
  const QueueView view{
      .waiting = 2, .oldest = now - milliseconds(20), .running = 0, .free_slots = 16};
  EXPECT_EQ(former.MayStart(view, now - milliseconds(10)), 0) << "14 more will be there soon";
}

}  // namespace
}  // namespace ropeway::scheduler
