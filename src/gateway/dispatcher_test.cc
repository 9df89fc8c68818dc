// Order, places, admission and views.
#include "gateway/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gateway/test_dispatcher.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

using DispatcherTest = DispatchTest;

TEST_F(DispatcherTest, ARequestIsSentAtOnceWhereAPlaceIsFree) {
  Start(OptionsOf(1, 2));
  const RequestId first = Add();
  const RequestId second = Add();
  const RequestId third = Add();
  EXPECT_TRUE(IsSent(first));
  EXPECT_TRUE(IsSent(second));
  EXPECT_FALSE(IsSent(third));
  EXPECT_EQ(dispatcher_->PositionOf(third), 0);
  EXPECT_TRUE(Output(first));
  EXPECT_TRUE(End(first));
  EXPECT_TRUE(IsSent(third)) << "the next one goes when one ends";
  EXPECT_EQ(dispatcher_->size(), 2U);
}

TEST_F(DispatcherTest, WhatEndedAnswersNoMore) {
  Start(OptionsOf(1, 1));
  const RequestId id = Add();
  const uint32_t attempt = at_.at(id).attempt;
  EXPECT_TRUE(End(id));
  EXPECT_FALSE(dispatcher_->OnOutput(id, attempt, {1, true}, now_));
  EXPECT_FALSE(dispatcher_->OnEnd(id, attempt, {}, now_));
  EXPECT_FALSE(dispatcher_->Cancel(id, now_));
  EXPECT_EQ(dispatcher_->OnFailure(id, attempt, {}, now_).kind, FailureOutcome::Kind::kStale);
}

TEST_F(DispatcherTest, ACancelledRequestIsGone) {
  Start(OptionsOf(1, 1));
  const RequestId sent = Add();
  const RequestId waiting = Add();
  EXPECT_TRUE(dispatcher_->Cancel(waiting, now_));
  EXPECT_TRUE(dispatcher_->Cancel(sent, now_));
  EXPECT_EQ(dispatcher_->size(), 0U);
  EXPECT_TRUE(IsSent(Add())) << "its place is free";
}

TEST_F(DispatcherTest, HigherClassesGoFirst) {
  Start(OptionsOf(1, 1));
  const RequestId running = Add();
  const RequestId low = Add({.priority = Priority::kLow});
  const RequestId medium = Add({.priority = Priority::kMedium});
  const RequestId high = Add({.priority = Priority::kHigh});
  TakeOrder();
  End(running);
  End(high);
  End(medium);
  EXPECT_THAT(TakeOrder(), ElementsAre(high, medium, low));
}

TEST_F(DispatcherTest, NothingThatWasSentIsTakenBack) {
  Start(OptionsOf(1, 1));
  const RequestId low = Add({.priority = Priority::kLow});
  Add({.priority = Priority::kHigh});
  Pass(seconds(5));
  EXPECT_TRUE(IsSent(low));
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(DispatcherTest, AFullReplicaThatPreemptsIsSentUrgentRequests) {
  Start(OptionsOf(1, 3));
  facts_[0]->preempts = true;
  Pass(seconds(6));
  std::vector<RequestId> low;
  for (int i = 0; i < 3; ++i) low.push_back(Add({.priority = Priority::kLow}));
  const RequestId medium = Add();
  const RequestId first = Add({.priority = Priority::kHigh});
  const RequestId second = Add({.priority = Priority::kHigh});
  const RequestId third = Add({.priority = Priority::kHigh});
  EXPECT_TRUE(IsSent(first));
  EXPECT_TRUE(IsSent(second));
  EXPECT_FALSE(IsSent(third)) << "half as many as its places, and no more";
  EXPECT_FALSE(IsSent(medium));
  End(first);
  EXPECT_TRUE(IsSent(third));
  End(low[0]);
  End(low[1]);
  EXPECT_FALSE(IsSent(medium)) << "three are there still";
  End(low[2]);
  EXPECT_TRUE(IsSent(medium));
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(DispatcherTest, APlaceIsTakenBeforeAReplicaHasToMakeRoom) {
  Start(OptionsOf(2, 2));
  for (StatusOr<BackendFacts>& facts : facts_) facts->preempts = true;
  Pass(seconds(6));
  std::vector<uint64_t> blocks;
  for (uint64_t i = 1; i <= 40; ++i) blocks.push_back(i * 77);
  const Asked asked{.priority = Priority::kLow, .prompt = 640, .max_tokens = 600, .blocks = blocks};
  const RequestId first = Add(asked);
  const RequestId second = Add(asked);
  ASSERT_EQ(ReplicaOf(second), ReplicaOf(first));
  Asked urgent = asked;
  urgent.priority = Priority::kHigh;
  const RequestId third = Add(urgent);
  ASSERT_TRUE(IsSent(third));
  EXPECT_NE(ReplicaOf(third), ReplicaOf(first)) << "though its cache is there";
}

TEST_F(DispatcherTest, TenantsTakeTurns) {
  Start(OptionsOf(1, 1));
  RequestId running = Add({.tenant = "greedy"});
  std::map<RequestId, std::string> tenants;
  for (int i = 0; i < 8; ++i) tenants[Queue({.tenant = "greedy"})] = "greedy";
  Run();
  Pass(milliseconds(100));
  for (int i = 0; i < 4; ++i) tenants[Queue({.tenant = "modest"})] = "modest";
  Run();
  TakeOrder();
  int modest = 0;
  for (int i = 0; i < 8; ++i) {
    Pass(milliseconds(100));
    Output(running, 10);
    End(running);
    const std::vector<RequestId> next = TakeOrder();
    ASSERT_EQ(next.size(), 1U);
    running = next[0];
    modest += tenants.at(running) == "modest" ? 1 : 0;
  }
  EXPECT_EQ(modest, 4) << "half of the turns, though it came last";
}

TEST_F(DispatcherTest, TenantsStartInTurnBeforeAnythingIsComputed) {
  Start(OptionsOf(1, 4));
  std::map<RequestId, std::string> tenants;
  for (int i = 0; i < 8; ++i) tenants[Queue({.tenant = "a"})] = "a";
  for (int i = 0; i < 8; ++i) tenants[Queue({.tenant = "b"})] = "b";
  Run();
  int of_b = 0;
  for (const RequestId id : TakeOrder()) of_b += tenants.at(id) == "b" ? 1 : 0;
  EXPECT_EQ(of_b, 2);
}

TEST_F(DispatcherTest, SharesOfTheClassesHoldByWhatIsComputed) {
  Start(OptionsOf(1, 4));
  std::array<int64_t, kNumPriorities> tokens{};
  std::map<RequestId, Priority> classes;
  std::map<RequestId, int> generated;
  // Each class always has more to do than its share.
  const auto top_up = [&] {
    for (int c = 0; c < kNumPriorities; ++c) {
      const auto priority = static_cast<Priority>(c);
      const int waiting = dispatcher_->Queue(nullptr, 1.0).classes[static_cast<size_t>(c)].waiting;
      for (int i = waiting; i < 6; ++i) {
        const Asked asked{.priority = priority, .prompt = 10, .max_tokens = 30};
        classes[this->Queue(asked)] = priority;
      }
    }
  };
  // 40 s; a token takes 10 ms for each of the four.
  for (int i = 0; i < 4000; ++i) {
    if (i % 10 == 0) top_up();
    Pass(milliseconds(10));
    for (const auto& [id, sent] : std::map<RequestId, Decision>(at_)) {
      Output(id);
      ++tokens[static_cast<size_t>(classes.at(id))];
      if (++generated[id] == 30) End(id);
    }
  }
  const double all = static_cast<double>(tokens[0] + tokens[1] + tokens[2]);
  EXPECT_NEAR(static_cast<double>(tokens[0]) / all, 0.70, 0.07);
  EXPECT_NEAR(static_cast<double>(tokens[1]) / all, 0.20, 0.07);
  EXPECT_NEAR(static_cast<double>(tokens[2]) / all, 0.10, 0.07);
}

TEST_F(DispatcherTest, AfterMaxWaitARequestGoesFirst) {
  DispatchOptions options = OptionsOf(1, 1);
  options.queue.policy = "priority";
  options.queue.strict_priority = true;
  options.queue.max_wait = seconds(10);
  Start(options);
  RequestId running = Add({.priority = Priority::kHigh, .max_tokens = 2});
  const RequestId low = Add({.priority = Priority::kLow, .max_tokens = 2});
  const base::TimePoint came = now_;
  while (!IsSent(low)) {
    ASSERT_LT(now_ - came, seconds(20));
    Add({.priority = Priority::kHigh, .max_tokens = 2});
    Pass(seconds(1));
    TakeOrder();
    End(running);
    const std::vector<RequestId> next = TakeOrder();
    ASSERT_EQ(next.size(), 1U);
    running = next[0];
  }
  EXPECT_GE(now_ - came, seconds(10));
  EXPECT_LE(now_ - came, seconds(12));
}

TEST_F(DispatcherTest, TheTenantsPlacesInTheQueueAreBounded) {
  DispatchOptions options = OptionsOf(1, 1);
  options.queue.max_queued_requests = 4;
  Start(options);
  Add();
  for (int i = 0; i < 4; ++i) Add();
  const Status full = TryAdd({});
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("max_queued_requests 4"));
  EXPECT_GE(full.retry_after_seconds(), 1);
  EXPECT_TRUE(TryAdd({.tenant = "b"}).ok()) << "another one finds room";
  Run();
}

TEST_F(DispatcherTest, TokensThatWaitAreBounded) {
  DispatchOptions options = OptionsOf(1, 1);
  options.queue.max_queued_tokens = 100;
  Start(options);
  Add();
  Add({.prompt = 80});
  EXPECT_EQ(TryAdd({.prompt = 80}).code(), StatusCode::kResourceExhausted);
  Run();
}

TEST_F(DispatcherTest, WhatWouldWaitTooLongIsRejected) {
  DispatchOptions options = OptionsOf(1, 1);
  options.queue.max_wait = seconds(10);
  Start(options);
  // 20 tokens a second, so a request of 50 takes some 3 s.
  RequestId running = Add();
  int accepted = 0;
  for (int i = 0; i < 40; ++i) {
    Pass(milliseconds(50));
    Output(running);
  }
  Status status;
  for (int i = 0; i < 50 && status.ok(); ++i) {
    status = TryAdd({});
    accepted += status.ok() ? 1 : 0;
    Run();
  }
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("max_wait"));
  EXPECT_GE(accepted, 2);
  EXPECT_LE(accepted, 10);
  EXPECT_GE(status.retry_after_seconds(), 1);
  const service::QueueInfo info = dispatcher_->Queue(nullptr, 1.0);
  EXPECT_GT(info.classes[1].wait_seconds, 5.0);
  EXPECT_EQ(info.classes[1].waiting, accepted);
  EXPECT_EQ(info.classes[1].running, 1);
  EXPECT_EQ(info.blocked_by, "slots");
}

TEST_F(DispatcherTest, WhatIsOneForItsClientIsAcceptedAsOne) {
  DispatchOptions options = OptionsOf(1, 1);
  options.queue.max_queued_requests = 3;
  Start(options);
  Add();
  std::vector<DispatchRequest> three;
  for (int i = 0; i < 3; ++i) three.push_back(Make({}));
  EXPECT_TRUE(dispatcher_->AddAll(std::move(three), now_).ok());
  std::vector<DispatchRequest> more;
  for (int i = 0; i < 3; ++i) more.push_back(Make({.tenant = "b"}));
  EXPECT_EQ(dispatcher_->AddAll(std::move(more), now_).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(dispatcher_->size(), 4U) << "all of them, or none";
  Run();
}

TEST_F(DispatcherTest, ADeadlineEndsARequestWhereverItIs) {
  Start(OptionsOf(1, 1));
  const RequestId sent = Add({.deadline = now_ + seconds(2)});
  const RequestId waits = Add({.deadline = now_ + seconds(1)});
  Output(sent);
  Pass(milliseconds(999));
  EXPECT_TRUE(ended_.empty());
  Pass(milliseconds(1));
  ASSERT_TRUE(ended_.contains(waits));
  EXPECT_EQ(ended_[waits].code(), StatusCode::kDeadlineExceeded);
  Pass(seconds(1));
  ASSERT_TRUE(ended_.contains(sent));
  EXPECT_EQ(dispatcher_->size(), 0U);
}

TEST_F(DispatcherTest, RequestsAreListedAsTheyStand) {
  Start(OptionsOf(1, 1));
  const RequestId running = Add({.tenant = "t"});
  const RequestId low = Add({.priority = Priority::kLow});
  const RequestId high = Add({.priority = Priority::kHigh});
  Pass(seconds(2));
  const std::vector<service::RequestInfo> infos = dispatcher_->Requests(now_);
  ASSERT_EQ(infos.size(), 3U);
  EXPECT_EQ(infos[0].id, running);
  EXPECT_EQ(infos[0].tenant, "t");
  EXPECT_EQ(infos[0].state, service::RequestInfo::State::kRunning);
  EXPECT_EQ(infos[0].queue_position, -1);
  EXPECT_NEAR(infos[0].age_seconds, 2.0, 1e-6);
  EXPECT_EQ(infos[1].id, low);
  EXPECT_EQ(infos[1].queue_position, 1);
  EXPECT_EQ(infos[2].id, high);
  EXPECT_EQ(infos[2].queue_position, 0);
  EXPECT_EQ(dispatcher_->Stats().queue_depth, 2);
  EXPECT_EQ(dispatcher_->Stats().running, 1);
}

TEST_F(DispatcherTest, ReplicasGetTheirPartAndNoMoreThanTheirPlaces) {
  Start(OptionsOf(3, 4));
  for (int i = 0; i < 20; ++i) Queue({});
  Run();
  for (int replica = 0; replica < 3; ++replica) {
    EXPECT_EQ(dispatcher_->ViewOf(replica, now_).in_flight, 4);
  }
  EXPECT_EQ(dispatcher_->waiting(), 8);
}

TEST_F(DispatcherTest, ARequestWaitsAMomentForItsCache) {
  DispatchOptions options = OptionsOf(2, 2);
  options.affinity_wait = milliseconds(500);
  Start(options);
  std::vector<uint64_t> blocks;
  for (uint64_t i = 1; i <= 40; ++i) blocks.push_back(i * 77);
  const Asked asked{.prompt = 640, .max_tokens = 600, .blocks = blocks};
  const RequestId first = Add(asked);
  const RequestId second = Add(asked);
  ASSERT_EQ(ReplicaOf(second), ReplicaOf(first));
  const RequestId away = Add({.prompt = 3000});
  ASSERT_NE(ReplicaOf(away), ReplicaOf(first));
  const RequestId third = Add(asked);
  EXPECT_FALSE(IsSent(third)) << "the other one has a place, and not its cache";
  const RequestId other = Add();
  EXPECT_TRUE(IsSent(other)) << "others pass it";
  End(other);
  Pass(milliseconds(400));
  EXPECT_FALSE(IsSent(third));
  Pass(milliseconds(100));
  EXPECT_TRUE(IsSent(third)) << "nor does any for longer";
}

TEST(DispatchOptionsTest, BadOnesAreNamed) {
  const auto field = [](const DispatchOptions& options) { return options.Validate().field(); };
  DispatchOptions options = OptionsOf(2, 4);
  EXPECT_TRUE(options.Validate().ok());
  options.replicas[1].name = options.replicas[0].name;
  EXPECT_EQ(field(options), "backend");
  EXPECT_THAT(options.Validate().message(), HasSubstr("r0"));
  EXPECT_EQ(field(DispatchOptions()), "backend");
  options = OptionsOf(1, 4);
  options.replicas[0].weight = 0.0;
  EXPECT_EQ(field(options), "weight");
  EXPECT_EQ(field(OptionsOf(1, -1)), "max-concurrency");
  options = OptionsOf(1, 4);
  options.replicas[0].min_concurrency = 5;
  EXPECT_EQ(field(options), "min-concurrency");
  options.replicas[0].max_concurrency = 0;
  EXPECT_TRUE(options.Validate().ok());
  options.rules.places = {.start = 4, .least = 1, .most = 4};
  EXPECT_EQ(field(options), "min-concurrency");
  options.replicas[0].min_concurrency = -1;
  EXPECT_EQ(field(options), "min-concurrency");
  EXPECT_EQ(field(OptionsOf(65, 1)), "backend");
  options = OptionsOf(1, 4);
  options.queue.policy = "fastest";
  EXPECT_EQ(field(options), "policy");
  options = OptionsOf(1, 4);
  options.batching.max_batch_size = 0;
  EXPECT_EQ(field(options), "max-batch-size");
  options = OptionsOf(1, 4);
  options.retries.per_second = 0.0;
  EXPECT_EQ(field(options), "retries-per-second");
}

}  // namespace
}  // namespace ropeway::gateway
