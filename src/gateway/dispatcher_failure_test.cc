// Failures: retries and their budget, resumption, replicas that hang, die, drain and return.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "gateway/dispatcher.h"
#include "gateway/test_dispatcher.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using AttemptFailure = FailureKind;
using OutcomeKind = FailureOutcome::Kind;

using DispatcherFailureTest = DispatchTest;

TEST_F(DispatcherFailureTest, BeforeAByteItIsSentAgainElsewhere) {
  Start(OptionsOf(3, 4));
  const RequestId id = Add();
  const int first = ReplicaOf(id);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kRetry);
  ASSERT_TRUE(IsSent(id));
  EXPECT_NE(ReplicaOf(id), first);
  EXPECT_EQ(at_[id].attempt, 2U);
  EXPECT_FALSE(at_[id].resume);
  EXPECT_TRUE(End(id));
  EXPECT_EQ(dispatcher_->counts().retries, 1U);
}

TEST_F(DispatcherFailureTest, AnOldAttemptIsNotHeard) {
  Start(OptionsOf(2, 4));
  const RequestId id = Add();
  Fail(id);
  EXPECT_FALSE(dispatcher_->OnOutput(id, 1, {5, true}, now_));
  EXPECT_FALSE(dispatcher_->OnEnd(id, 1, {}, now_));
  EXPECT_EQ(dispatcher_->OnFailure(id, 1, {}, now_).kind, OutcomeKind::kStale);
  EXPECT_TRUE(End(id));
}

TEST_F(DispatcherFailureTest, RetriesHaveAnEnd) {
  DispatchOptions options = OptionsOf(4, 4);
  options.failover.max_retries = 2;
  Start(options);
  const RequestId id = Add();
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kRetry);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kRetry);
  const FailureOutcome last = Fail(id);
  EXPECT_EQ(last.kind, OutcomeKind::kFinal);
  EXPECT_EQ(last.status.message(), "it broke");
  EXPECT_EQ(dispatcher_->size(), 0U);
}

TEST_F(DispatcherFailureTest, ABadRequestFailsAtOnce) {
  Start(OptionsOf(2, 4));
  const RequestId id = Add();
  EXPECT_EQ(Fail(id, AttemptFailure::kRejected).kind, OutcomeKind::kFinal);
  EXPECT_EQ(dispatcher_->counts().retries, 0U);
}

TEST_F(DispatcherFailureTest, RetriesWaitForTheirBudget) {
  DispatchOptions options = OptionsOf(2, 100);
  options.retries = {.part = 0.0, .per_second = 1.0};  // Four at once, then one a second.
  options.rules.health.failures = 1'000'000;
  Start(options);
  std::vector<RequestId> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(Add());
  for (const RequestId id : ids) EXPECT_EQ(Fail(id).kind, OutcomeKind::kRetry);
  EXPECT_EQ(dispatcher_->counts().retries, 4U);
  EXPECT_EQ(dispatcher_->waiting(), 6);
  EXPECT_GT(dispatcher_->counts().retries_delayed, 0U);
  Pass(milliseconds(2500));
  EXPECT_EQ(dispatcher_->counts().retries, 6U);
  Pass(seconds(10));
  EXPECT_EQ(dispatcher_->waiting(), 0) << "late, and not lost";
  EXPECT_EQ(dispatcher_->counts().retries_delayed, 6U) << "each is counted once";
  for (const RequestId id : ids) EXPECT_TRUE(End(id));
}

TEST_F(DispatcherFailureTest, AStreamGoesOnWhereTheBitsAreTheSame) {
  Start(OptionsOf(3, 4));
  const RequestId id = Add();
  const int first = ReplicaOf(id);
  const int other = (first + 1) % 3;
  const int alike = (first + 2) % 3;
  BackendFacts another = HealthyFacts();
  another.numerics = "4";
  facts_[static_cast<size_t>(other)] = another;
  Pass(seconds(5));
  EXPECT_TRUE(Output(id, 7));
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kResume);
  ASSERT_TRUE(IsSent(id));
  EXPECT_EQ(ReplicaOf(id), alike);
  EXPECT_TRUE(at_[id].resume);
  EXPECT_TRUE(Output(id, 3));
  EXPECT_TRUE(End(id));
  EXPECT_EQ(dispatcher_->counts().resumptions, 1U);
  EXPECT_EQ(dispatcher_->counts().retries, 0U);
}

TEST_F(DispatcherFailureTest, ThreeTimesAtMost) {
  Start(OptionsOf(4, 4));
  const RequestId id = Add();
  for (int i = 0; i < 3; ++i) {
    Output(id);
    EXPECT_EQ(Fail(id).kind, OutcomeKind::kResume);
    Pass(seconds(1));  // Probes say again what each is.
    ASSERT_TRUE(IsSent(id));
  }
  Output(id);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kFinal);
}

TEST_F(DispatcherFailureTest, AResumedAttemptThatFailsBeforeAByteIsNoRetry) {
  Start(OptionsOf(3, 4));
  const RequestId id = Add();
  Output(id, 4);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kResume);
  ASSERT_TRUE(IsSent(id));
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kResume) << "the client has a part of it";
  ASSERT_TRUE(IsSent(id));
  EXPECT_TRUE(at_[id].resume);
}

TEST_F(DispatcherFailureTest, IdsThatAreRejectedAreTriedOnceWithout) {
  Start(OptionsOf(2, 4));
  const RequestId id = Add();
  const int first = ReplicaOf(id);
  Output(id, 4);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kResume);
  ASSERT_TRUE(IsSent(id));
  const int second = ReplicaOf(id);
  EXPECT_NE(second, first);
  EXPECT_TRUE(at_[id].resume);
  EXPECT_EQ(Fail(id, AttemptFailure::kRejected).kind, OutcomeKind::kResume);
  ASSERT_TRUE(IsSent(id));
  EXPECT_EQ(ReplicaOf(id), second) << "it is not the one at fault";
  EXPECT_FALSE(at_[id].resume);
  Output(id, 4);
  const FailureOutcome last = Fail(id, AttemptFailure::kRejected);
  EXPECT_EQ(last.kind, OutcomeKind::kFinal);
  EXPECT_EQ(last.status.code(), StatusCode::kUnavailable);
}

TEST_F(DispatcherFailureTest, WhatIsComputedAnewIsNotGoneOnWithAgain) {
  Start(OptionsOf(3, 4));
  const RequestId id = Add();
  Output(id, 4);
  Fail(id);
  Fail(id, AttemptFailure::kRejected);
  ASSERT_TRUE(IsSent(id));
  Output(id, 4);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kFinal);
}

TEST_F(DispatcherFailureTest, WhoHasItsOutputHasSentAGoodRequest) {
  Start(OptionsOf(2, 4));
  const RequestId id = Add();
  Output(id, 4);
  const uint32_t attempt = at_.at(id).attempt;
  const Outcome failure =
      Outcome::Failed(AttemptFailure::kRejected, InvalidArgument("too long", "prompt"));
  const FailureOutcome last = dispatcher_->OnFailure(id, attempt, failure, now_);
  EXPECT_EQ(last.kind, OutcomeKind::kFinal);
  EXPECT_EQ(last.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(last.status.field(), "");
}

TEST_F(DispatcherFailureTest, WithoutIdsACutStreamFails) {
  Start(OptionsOf(3, 4));
  const RequestId id = Add();
  Output(id, 4, false);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kFinal);
}

TEST_F(DispatcherFailureTest, AReplicaThatIsAnotherOneNowHasStreamsOfUnknownOrigin) {
  Start(OptionsOf(3, 4));
  const RequestId id = Add();
  Output(id);
  facts_[static_cast<size_t>(ReplicaOf(id))]->numerics = "4";
  Pass(seconds(6));
  Output(id);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kFinal);
}

TEST_F(DispatcherFailureTest, BackendsThatCannotResumeAreNotAsked) {
  Start(OptionsOf(3, 4));
  for (auto& facts : facts_) facts->model_digest.clear();
  Pass(seconds(6));  // Each is asked again.
  const RequestId id = Add();
  Output(id);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kFinal);
}

TEST_F(DispatcherFailureTest, ACutStreamWaitsForItsOwnReplicaToReturn) {
  DispatchOptions options = OptionsOf(1, 40);
  options.resume_wait = seconds(20);
  Start(options);
  const RequestId id = Add();
  const RequestId lost = Add();
  Output(id);
  Output(lost);
  const StatusOr<BackendFacts> down(Status(StatusCode::kUnavailable, "connection refused"));
  facts_[0] = down;
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kResume);
  Pass(seconds(5));
  EXPECT_FALSE(IsSent(id));
  facts_[0] = HealthyFacts();
  Pass(seconds(5));
  EXPECT_TRUE(IsSent(id));
  facts_[0] = down;
  EXPECT_EQ(Fail(lost).kind, OutcomeKind::kResume);
  Fail(id);
  Pass(seconds(21));
  ASSERT_TRUE(ended_.contains(lost)) << "but not for ever";
  EXPECT_EQ(ended_[lost].code(), StatusCode::kUnavailable);
  EXPECT_EQ(dispatcher_->size(), 0U);
}

TEST_F(DispatcherFailureTest, AHangIsAFailure) {
  DispatchOptions options = OptionsOf(2, 4);
  options.failover.idle_timeout = seconds(3);
  options.failover.first_byte_timeout = seconds(10);
  Start(options);
  const RequestId streams = Add();
  const int first = ReplicaOf(streams);
  Output(streams);
  Pass(seconds(2));
  Output(streams);
  Pass(milliseconds(2999));
  EXPECT_EQ(ReplicaOf(streams), first);
  Pass(milliseconds(1));
  EXPECT_EQ(dropped_, std::vector<RequestId>({streams}));
  EXPECT_TRUE(at_[streams].resume);
  EXPECT_NE(ReplicaOf(streams), first);
  End(streams);

  const RequestId silent = Add();
  const int where = ReplicaOf(silent);
  Pass(milliseconds(9999));
  EXPECT_EQ(ReplicaOf(silent), where);
  Pass(milliseconds(1));
  EXPECT_NE(ReplicaOf(silent), where);
  EXPECT_FALSE(at_[silent].resume);
}

TEST_F(DispatcherFailureTest, WhatItsReplicaHasStillIsNoHang) {
  DispatchOptions options = OptionsOf(2, 4);
  options.failover.idle_timeout = seconds(3);
  options.failover.first_byte_timeout = seconds(10);
  Start(options);
  const RequestId streams = Add();
  const RequestId waits = Add();
  Output(streams);
  for (int i = 0; i < 20; ++i) {
    Pass(seconds(2));
    for (const RequestId id : {streams, waits}) {
      dispatcher_->OnAlive(id, at_.at(id).attempt, now_);
    }
  }
  EXPECT_TRUE(dropped_.empty());
  dispatcher_->OnAlive(streams, at_.at(streams).attempt + 1, now_);  // Without effect.
  Pass(seconds(3));
  EXPECT_EQ(dropped_, std::vector<RequestId>({streams}));
  Pass(seconds(7));
  EXPECT_THAT(dropped_, testing::Contains(waits));
}

TEST_F(DispatcherFailureTest, AStreamThatIsTakenUpIsNotWaitedForAsLongAsAPrompt) {
  DispatchOptions options = OptionsOf(3, 4);
  options.failover.idle_timeout = seconds(3);
  options.failover.first_byte_timeout = seconds(300);
  Start(options);
  const RequestId id = Add();
  Output(id, 4);
  EXPECT_EQ(Fail(id).kind, OutcomeKind::kResume);
  ASSERT_TRUE(IsSent(id));
  const int hangs = ReplicaOf(id);
  Pass(milliseconds(2999));
  EXPECT_EQ(ReplicaOf(id), hangs);
  Pass(milliseconds(1));
  EXPECT_EQ(dropped_, std::vector<RequestId>({id}));
  ASSERT_TRUE(IsSent(id));
  EXPECT_NE(ReplicaOf(id), hangs);
  EXPECT_TRUE(at_[id].resume);
}

TEST_F(DispatcherFailureTest, NorIsAFirstByteOfAReplicaThatAnswersNoProbes) {
  DispatchOptions options = OptionsOf(2, 4);
  options.failover.idle_timeout = seconds(20);
  options.failover.first_byte_timeout = seconds(300);
  Start(options);
  const RequestId id = Add();
  const int silent = ReplicaOf(id);
  facts_[static_cast<size_t>(silent)] = Status(StatusCode::kUnavailable, "it does not answer");
  Pass(milliseconds(19'999));
  EXPECT_EQ(ReplicaOf(id), silent);
  EXPECT_EQ(dispatcher_->ViewOf(silent, now_).state, ReplicaView::State::kEjected);
  Pass(milliseconds(1));
  ASSERT_TRUE(IsSent(id));
  EXPECT_NE(ReplicaOf(id), silent);
  EXPECT_FALSE(at_[id].resume);
}

TEST_F(DispatcherFailureTest, DrainingMovesStreamsAndTakesNoMore) {
  Start(OptionsOf(2, 8));
  std::vector<RequestId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(Add());
  for (const RequestId id : ids) Output(id);
  dispatcher_->SetDraining(0, true, now_);
  Run();
  for (const RequestId id : ids) EXPECT_EQ(ReplicaOf(id), 1);
  EXPECT_EQ(dropped_.size(), 4U);
  EXPECT_FALSE(IsSent(Add())) << "the other one is full";
  EXPECT_EQ(dispatcher_->ViewOf(0, now_).state, ReplicaView::State::kDraining);
  for (const RequestId id : ids) EXPECT_TRUE(End(id));
  dispatcher_->SetDraining(0, false, now_);
  Run();
  EXPECT_EQ(ReplicaOf(Add({.prompt = 1})), 0);
}

TEST_F(DispatcherFailureTest, AllDownIsSaidAtOnce) {
  DispatchOptions options = OptionsOf(2, 1);
  Start(options);
  const RequestId a = Add();
  const RequestId b = Add();
  const RequestId waits = Add();
  facts_.assign(2, Status(StatusCode::kUnavailable, "connection refused"));
  Fail(a, AttemptFailure::kUnreachable);
  Fail(b, AttemptFailure::kUnreachable);
  Pass(seconds(3));
  ASSERT_FALSE(dispatcher_->any_alive());
  for (const RequestId id : {a, b, waits}) {
    if (!ended_.contains(id)) continue;
    EXPECT_EQ(ended_[id].code(), StatusCode::kUnavailable);
    EXPECT_GE(ended_[id].retry_after_seconds(), 1);
  }
  ASSERT_TRUE(ended_.contains(waits) || IsSent(waits));
  const Status status = TryAdd({});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("r0: connection refused"));
  EXPECT_GE(status.retry_after_seconds(), 1);
  facts_.assign(2, HealthyFacts());
  Pass(seconds(40));
  EXPECT_TRUE(dispatcher_->any_alive());
}

TEST_F(DispatcherFailureTest, OrHeldForATime) {
  DispatchOptions options = OptionsOf(1, 4);
  options.failover.hold_timeout = seconds(10);
  Start(options);
  facts_[0] = Status(StatusCode::kUnavailable, "connection refused");
  Pass(seconds(8));
  ASSERT_FALSE(dispatcher_->any_alive());
  const RequestId lost = Add();
  Pass(milliseconds(9999));
  EXPECT_TRUE(ended_.empty());
  Pass(milliseconds(1));
  EXPECT_EQ(ended_[lost].code(), StatusCode::kUnavailable);
  const RequestId saved = Add();
  facts_[0] = HealthyFacts();
  Pass(seconds(5));
  EXPECT_TRUE(IsSent(saved));
}

TEST_F(DispatcherFailureTest, ABusyReplicaIsAskedAgainLater) {
  Start(OptionsOf(1, 4));
  const RequestId id = Add();
  EXPECT_EQ(Fail(id, AttemptFailure::kBusy, 2).kind, OutcomeKind::kRetry);
  EXPECT_TRUE(ended_.empty()) << "busy is not down";
  Pass(milliseconds(1999));
  EXPECT_FALSE(IsSent(id));
  Pass(milliseconds(1));
  EXPECT_TRUE(IsSent(id));
}

TEST_F(DispatcherFailureTest, AnEjectedReplicaGetsNothingUntilItReturns) {
  DispatchOptions options = OptionsOf(2, 4);
  Start(options);
  facts_[0] = Status(StatusCode::kUnavailable, "connection refused");
  Pass(seconds(8));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ReplicaOf(Add()), 1);
  EXPECT_FALSE(IsSent(Add()));
  facts_[0] = HealthyFacts();
  Pass(seconds(5));
  EXPECT_EQ(dispatcher_->ViewOf(0, now_).state, ReplicaView::State::kReturning);
  EXPECT_EQ(dispatcher_->waiting(), 0);
  EXPECT_EQ(dispatcher_->ViewOf(0, now_).ejections, 1U);
}

TEST_F(DispatcherFailureTest, WhatWasComputedOnceIsChargedOnce) {
  DispatchOptions options = OptionsOf(2, 4);
  options.queue.policy = "fair";
  Start(options);
  const RequestId id = Add({.prompt = 100});
  Queue({.tenant = "b"});
  core::Job probe;
  probe.request.tenant = "a";
  const auto charged = [&] { return dispatcher_->policy()->ServiceOf(probe) / 65536; };
  EXPECT_EQ(charged(), 2) << "its first token, so that others start in turn";
  Fail(id);
  EXPECT_EQ(charged(), 2);
  Output(id, 5);
  EXPECT_EQ(charged(), 100 + 2 * 5);
  Fail(id);
  Pass(seconds(1));
  ASSERT_TRUE(IsSent(id));
  Output(id, 1);
  EXPECT_EQ(charged(), 100 + 2 * 6) << "what is computed again is not";
}

TEST_F(DispatcherFailureTest, WhatWasNotCachedAfterAllIsCharged) {
  DispatchOptions options = OptionsOf(1, 4);
  options.queue.policy = "fair";
  Start(options);
  const Asked asked{.prompt = 100, .blocks = {11, 22, 33, 44, 55}};  // 80 tokens.
  core::Job probe;
  probe.request.tenant = "a";
  const auto charged = [&] { return dispatcher_->policy()->ServiceOf(probe) / 65536; };
  const auto charged_by_end = [&](const Finish& end) {
    const RequestId id = Add(asked);
    Output(id, 1);
    const int64_t before = charged();
    EXPECT_TRUE(dispatcher_->OnEnd(id, at_.at(id).attempt, end, now_));
    at_.erase(id);
    const int64_t more = charged() - before;
    Run();
    return more;
  };
  Finish end = Outcome::Unsaid();
  end.usage.prompt_tokens = 100;
  EXPECT_EQ(charged_by_end(end), 0) << "nothing was cached, all was charged";
  EXPECT_EQ(charged_by_end(end), 0) << "it does not say what was cached";
  end.usage.cached_tokens = 80;
  EXPECT_EQ(charged_by_end(end), 0) << "as was thought";
  end.usage.cached_tokens = 16;
  EXPECT_EQ(charged_by_end(end), 64);
  end.usage.prompt_tokens = 2'000'000'000;
  EXPECT_EQ(charged_by_end(end), 100) << "up to the estimate";
}

TEST_F(DispatcherFailureTest, OfAThousandThatFailAtRandomEachHasOneEnd) {
  DispatchOptions options = OptionsOf(1, 8);
  options.queue.max_wait = std::chrono::hours(1);
  Start(options);
  base::SeededRandom random(7);
  std::map<RequestId, int> ends;
  int added = 0;
  for (int i = 0; i < 200'000 && (added < 1000 || dispatcher_->size() > 0); ++i) {
    if (added < 1000 && dispatcher_->waiting() < 50) {
      ends[Add()] = 0;
      ++added;
    }
    for (const auto& [id, sent] : std::map<RequestId, Decision>(at_)) {
      if (random.Chance(0.2)) {
        ends[id] += Fail(id).kind == OutcomeKind::kFinal ? 1 : 0;
      } else {
        ends[id] += End(id) ? 1 : 0;
      }
    }
    Pass(milliseconds(20));
  }
  for (const auto& [id, status] : ended_) ++ends[id];
  for (const auto& [id, count] : ends) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(ends.size(), 1000U);
  EXPECT_EQ(dispatcher_->size(), 0U);
}

}  // namespace
}  // namespace ropeway::gateway
