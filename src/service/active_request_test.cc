#include "service/active_request.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/registry.h"

namespace ropeway::service {
namespace {

using State = RequestState;
using std::chrono::seconds;

// Notes what it is told.
class NotingSink final : public Sink {
 public:
  void OnAdmitted(RequestId, const Admission&) override {
    Note("admitted");
    if (throws) throw std::runtime_error("a sink's own");
  }
  bool OnDelta(RequestId, Delta delta) override {
    Note("delta " + delta.text);
    return more;
  }
  void OnAlive(RequestId) override { Note("alive"); }
  void OnEnd(RequestId, const Outcome& outcome) override {
    Note("end " + outcome.status.message());
    if (at_end) at_end();
    if (throws) throw 1;
  }

  bool more = true;
  bool throws = false;
  std::function<void()> at_end;
  std::vector<std::string> told;

 private:
  void Note(std::string what) { told.push_back(std::move(what)); }
};

std::shared_ptr<ActiveRequest> NewRequest(const std::shared_ptr<Sink>& sink = nullptr) {
  return std::make_shared<ActiveRequest>(SinkRequest{Request(), sink});
}

Delta Text(const std::string& text) {
  Delta delta;
  delta.text = text;
  return delta;
}

TEST(ActiveRequestTest, CountsAsQueuedUntilItStartsOrEnds) {
  Registry<ActiveRequest> requests("the test");
  const auto starts = NewRequest();
  const auto ends = NewRequest();
  ASSERT_TRUE(requests.Add(starts).ok());
  ASSERT_TRUE(requests.Add(ends).ok());
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

TEST(ActiveRequestTest, AMoveFromAnotherStateChangesNothing) {
  Registry<ActiveRequest> requests("the test");
  const auto request = NewRequest();
  ASSERT_TRUE(requests.Add(request).ok());
  EXPECT_FALSE(request->Move(State::kWaiting, State::kRunning));
  EXPECT_EQ(request->state(), State::kEncoding);
  EXPECT_TRUE(request->End());
  EXPECT_FALSE(request->Move(State::kEncoding, State::kWaiting)) << "an ended request stays so";
  EXPECT_FALSE(request->Move(State::kRunning, State::kPreempted));
  EXPECT_EQ(request->state(), State::kEnded);
  EXPECT_EQ(requests.queued(), 0);
}

// A cancel, the hand-over and the end of one request in three threads: one of the first two leaves
// kEncoding, and the count falls once.
TEST(ActiveRequestTest, OneOfTheCancelAndTheHandOverWinsInEveryRace) {
  Registry<ActiveRequest> requests("the test");
  for (int round = 0; round < 2000; ++round) {
    const auto request = NewRequest();
    ASSERT_TRUE(requests.Add(request).ok());
    std::atomic<int> ready{0};
    std::atomic<int> won{0};
    const auto race = [&](State to) {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      if (request->Move(State::kEncoding, to)) ++won;
    };
    std::thread cancel(race, State::kEnded);
    std::thread hand_over(race, State::kWaiting);
    cancel.join();
    hand_over.join();
    EXPECT_EQ(won, 1);
    request->End();
    EXPECT_EQ(requests.queued(), 0);
    requests.Erase(request->id);
  }
  EXPECT_EQ(requests.Oldest(), nullptr);
}

TEST(ActiveRequestTest, ASinkIsAdmittedOnceAndEndsOnce) {
  const auto sink = std::make_shared<NotingSink>();
  const auto request = NewRequest(sink);
  EXPECT_TRUE(request->Admit({}));
  EXPECT_TRUE(request->Admit({}));
  EXPECT_TRUE(request->Give(Text("a")));
  request->TellAlive();
  sink->more = false;
  EXPECT_FALSE(request->Give(Text("b")));
  EXPECT_TRUE(request->gone());
  EXPECT_FALSE(request->ended());
  EXPECT_FALSE(request->told());
  request->Fail({StatusCode::kInternal, "why"});
  EXPECT_TRUE(request->ended());
  EXPECT_EQ(sink->told,
            (std::vector<std::string>{"admitted", "delta a", "alive", "delta b", "end why"}));
}

TEST(ActiveRequestTest, WhatItHoldsIsFreeWhenItsSinkLearnsOfTheEnd) {
  base::SharedBudget budget(10);
  const auto sink = std::make_shared<NotingSink>();
  const auto request = NewRequest(sink);
  ASSERT_TRUE(budget.Take("", 4, &request->bytes));
  ASSERT_TRUE(budget.Take("", 1, &request->place));
  ActiveRequest* const its = request.get();
  int64_t used = -1;
  bool told = false;
  sink->at_end = [&] {
    used = budget.used();
    told = its->told();
  };
  request->Tell({});
  EXPECT_EQ(used, 0);
  EXPECT_TRUE(told);
  EXPECT_EQ(sink.use_count(), 1) << "it is dropped";
}

TEST(ActiveRequestTest, ASinkThatThrowsWantsNoMoreAndStillGetsItsEnd) {
  const auto sink = std::make_shared<NotingSink>();
  sink->throws = true;
  const auto request = NewRequest(sink);
  EXPECT_FALSE(request->Admit({}));
  EXPECT_TRUE(request->gone());
  request->Tell({});
  EXPECT_TRUE(request->ended());
  EXPECT_EQ(sink->told, (std::vector<std::string>{"admitted", "end "}));
}

TEST(ActiveRequestTest, ATurnHasTheTextThatItsSinkWasGiven) {
  const auto request = NewRequest(std::make_shared<NotingSink>());
  request->turn = std::make_unique<Turn>();
  EXPECT_FALSE(request->being_kept());
  request->Give(Text("two "));
  request->Give(Text("parts"));
  EXPECT_EQ(request->turn->answer.content, "two parts");
  request->turn->end = Finish();
  EXPECT_TRUE(request->being_kept());
}

TEST(ActiveRequestTest, ItsTimesAreThoseOfThePhasesThatItCameTo) {
  ActiveRequest request;
  request.arrival = seconds(1);
  EXPECT_EQ(request.Times().queue, base::Duration(0));
  request.started = seconds(3);
  request.batch.formation = seconds(1);
  EXPECT_EQ(request.Times().queue, seconds(2));
  EXPECT_EQ(request.Times().formation, seconds(1));
  EXPECT_EQ(request.Times().prefill, base::Duration(0));
  request.first_token = seconds(7);
  request.last_token = seconds(12);
  EXPECT_EQ(request.Times().prefill, seconds(4));
  EXPECT_EQ(request.Times().decode, seconds(5));
}

}  // namespace
}  // namespace ropeway::service
