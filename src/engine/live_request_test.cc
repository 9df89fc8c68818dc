#include "engine/live_request.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace ropeway::engine {
namespace {

using State = LiveRequest::State;

std::shared_ptr<LiveRequest> NewRequest(RequestId id) {
  auto live = std::make_shared<LiveRequest>();
  live->id = id;
  return live;
}

TEST(LiveRequestTest, CountsAsQueuedUntilItStartsOrEnds) {
  LiveRequests requests;
  const auto starts = NewRequest(1);
  const auto ends = NewRequest(2);
  requests.Add(starts);
  requests.Add(ends);
  EXPECT_EQ(requests.queued(), 2);
  EXPECT_TRUE(starts->Move(State::kEncoding, State::kWaiting));
  EXPECT_EQ(requests.queued(), 2) << "it waits still";
  EXPECT_TRUE(starts->Move(State::kWaiting, State::kRunning));
  EXPECT_EQ(requests.queued(), 1);
  EXPECT_TRUE(starts->Move(State::kRunning, State::kPreempted));
  EXPECT_TRUE(starts->Move(State::kPreempted, State::kRunning));
  EXPECT_EQ(requests.queued(), 1) << "a preempted request has started";
  EXPECT_TRUE(starts->End());
  EXPECT_EQ(requests.queued(), 1);
  EXPECT_TRUE(ends->End());
  EXPECT_EQ(requests.queued(), 0);
  EXPECT_FALSE(ends->End()) << "a request ends once";
  EXPECT_EQ(requests.queued(), 0);
}

TEST(LiveRequestTest, AMoveFromAnotherStateChangesNothing) {
  LiveRequests requests;
  const auto live = NewRequest(1);
  requests.Add(live);
  EXPECT_FALSE(live->Move(State::kWaiting, State::kRunning));
  EXPECT_EQ(live->state(), State::kEncoding);
  EXPECT_TRUE(live->End());
  EXPECT_FALSE(live->Move(State::kEncoding, State::kWaiting)) << "an ended request stays so";
  EXPECT_FALSE(live->Move(State::kRunning, State::kPreempted));
  EXPECT_EQ(live->state(), State::kEnded);
  EXPECT_EQ(requests.queued(), 0);
}

// A cancel, the hand-over and the end of one request in three threads: one of the first two leaves
// kEncoding, and the count falls once.
TEST(LiveRequestTest, OneOfTheCancelAndTheHandOverWinsInEveryRace) {
  LiveRequests requests;
  for (RequestId id = 1; id <= 2000; ++id) {
    const auto live = NewRequest(id);
    requests.Add(live);
    std::atomic<int> ready{0};
    std::atomic<int> won{0};
    const auto race = [&](State to) {
      ++ready;
      while (ready < 2) {
      }
      if (live->Move(State::kEncoding, to)) ++won;
    };
    std::thread cancel(race, State::kEnded);
    std::thread hand_over(race, State::kWaiting);
    cancel.join();
    hand_over.join();
    EXPECT_EQ(won, 1);
    live->End();
    EXPECT_EQ(requests.queued(), 0);
    requests.Erase(id);
  }
  EXPECT_TRUE(requests.WaitEmpty(std::chrono::seconds(0)));
}

TEST(LiveRequestsTest, WaitsUntilAllAreErased) {
  LiveRequests requests;
  EXPECT_TRUE(requests.WaitEmpty(std::chrono::seconds(0)));
  EXPECT_EQ(requests.Any(), nullptr);
  requests.Add(NewRequest(7));
  EXPECT_EQ(requests.Find(7)->id, 7U);
  EXPECT_EQ(requests.Find(8), nullptr);
  EXPECT_EQ(requests.Any()->id, 7U);
  EXPECT_FALSE(requests.WaitEmpty(std::chrono::milliseconds(1)));
  std::thread eraser([&] { requests.Erase(7); });
  EXPECT_TRUE(requests.WaitEmpty(std::chrono::seconds(60)));
  eraser.join();
  EXPECT_EQ(requests.size(), 0U);
}

}  // namespace
}  // namespace ropeway::engine
