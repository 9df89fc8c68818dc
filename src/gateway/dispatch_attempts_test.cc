#include "gateway/dispatch_attempts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "gateway/test_dispatch_parts.h"
#include "gateway/test_dispatcher.h"

namespace ropeway::gateway {
namespace {

using std::chrono::seconds;
using Kind = FailureKind;
using Next = DispatchAttempts::Next;

// Two replicas that can resume and are the same model.
class DispatchAttemptsTest : public DispatchPartsTest {
 protected:
  DispatchAttemptsTest() : DispatchPartsTest(Options()) {
    for (const int i : {0, 1}) {
      uint64_t probe = 0;
      bool ejected = false;
      EXPECT_TRUE(replicas_[i].TakeProbe(now_, &probe, &ejected));
      replicas_[i].OnProbe(probe, HealthyFacts(), false, now_);
    }
  }
  static DispatchOptions Options() {
    DispatchOptions options;
    options.queue.policy = "fair";
    options.replicas = {{.name = "a", .max_concurrency = 4}, {.name = "b", .max_concurrency = 4}};
    options.failover.first_byte_timeout = seconds(20);
    options.failover.idle_timeout = seconds(5);
    return options;
  }
  DispatchEntry* Add() {
    DispatchRequest request;
    request.tenant = "t";
    request.prompt_tokens = 100;
    request.max_tokens = 10;
    DispatchEntry* const entry = Queue(std::move(request));
    Unqueue(entry);
    return entry;
  }
  void Begin(DispatchEntry* entry, int replica = 0, int32_t cached_blocks = 0) {
    entry->state = core::SequenceState::kPrefilling;
    attempts_.Begin(entry, {.replica = replica, .cached = cached_blocks});
  }
  Next Fail(DispatchEntry* entry, Kind kind = Kind::kBroken) {
    Outcome failure;
    failure.kind = kind;
    failure.status = Status(StatusCode::kUnavailable, "it broke");
    failure.status.set_retry_after_seconds(7);
    const Next next = attempts_.OnFailure(entry, failure, &status_);
    entry->state = core::SequenceState::kPreempted;
    entry->resumes = next == Next::kResume;
    return next;
  }
  double Charged(const DispatchEntry& entry) const {
    return static_cast<double>(order_.policy()->ServiceOf(entry)) / 65536;
  }
};

TEST_F(DispatchAttemptsTest, CountsWhatIsOutstandingAndChargesWhatIsComputed) {
  DispatchEntry* const entry = Add();
  Begin(entry, 0, 3);
  EXPECT_EQ(replicas_[0].outstanding(), 100 - 3 * kTokensPerPrefixBlock + 10);
  EXPECT_EQ(entries_.running().size(), 1U);
  EXPECT_TRUE(attempts_.OnOutput(entry, {.tokens = 2})) << "the first byte";
  EXPECT_FALSE(attempts_.OnOutput(entry, {.tokens = 3}));
  EXPECT_EQ(replicas_[0].outstanding(), 5);
  EXPECT_EQ(Charged(*entry), 52 + 2 * 5);
  attempts_.OnOutput(entry, {.tokens = 1000});
  EXPECT_EQ(entry->generated(), 10) << "no more than were asked for";
  Finish end;
  end.usage = {.prompt_tokens = 100, .completion_tokens = 10, .cached_tokens = 0};
  attempts_.OnEnd(entry, end);
  EXPECT_EQ(Charged(*entry), 100 + 2 * 10) << "nothing was cached after all";
  EXPECT_EQ(replicas_[0].outstanding(), 0);
  EXPECT_EQ(replicas_[0].in_flight(), 0);
  EXPECT_EQ(entry->replica, -1);
}

TEST_F(DispatchAttemptsTest, PatienceIsShorterOnceItHasBegun) {
  DispatchEntry* const entry = Add();
  EXPECT_EQ(attempts_.DueOf(*entry), base::TimePoint::max());
  Begin(entry);
  EXPECT_EQ(attempts_.DueOf(*entry), now_ + seconds(20));
  Advance(seconds(3));
  attempts_.OnOutput(entry, {.tokens = 1});
  EXPECT_EQ(attempts_.DueOf(*entry), now_ + seconds(5));
  Advance(seconds(3));
  attempts_.OnAlive(entry);
  EXPECT_EQ(attempts_.DueOf(*entry), now_ + seconds(5));
  entry->request.deadline = now_ + seconds(1);
  EXPECT_EQ(attempts_.DueOf(*entry), now_ + seconds(1));
}

TEST_F(DispatchAttemptsTest, WhatWasCutWaitsForAReplicaAWhile) {
  DispatchEntry* const entry = Add();
  Begin(entry);
  attempts_.OnOutput(entry, {.tokens = 1});
  EXPECT_EQ(Fail(entry), Next::kResume);
  entry->queued_at = now_;
  EXPECT_EQ(attempts_.DueOf(*entry), now_ + options_.resume_wait);
  Begin(entry, 1);
  EXPECT_EQ(attempts_.DueOf(*entry), now_ + seconds(5)) << "it goes on at once, or hangs";
}

TEST_F(DispatchAttemptsTest, BeforeOutputItIsSentAgain) {
  DispatchEntry* const entry = Add();
  for (int i = 0; i < options_.failover.max_retries; ++i) {
    Begin(entry, i % 2);
    EXPECT_EQ(Fail(entry), Next::kRetry);
  }
  EXPECT_EQ(entry->failed_on, MaskOf(0) | MaskOf(1));
  Begin(entry);
  EXPECT_EQ(Fail(entry), Next::kEnd);
  EXPECT_EQ(status_.message(), "it broke");
  EXPECT_EQ(replicas_[0].in_flight(), 0);
}

TEST_F(DispatchAttemptsTest, WithOutputItGoesOnIfItsIdsAreKnown) {
  DispatchEntry* const known = Add();
  DispatchEntry* const unknown = Add();
  for (DispatchEntry* entry : {known, unknown}) Begin(entry);
  attempts_.OnOutput(known, {.tokens = 1, .ids_known = true});
  attempts_.OnOutput(unknown, {.tokens = 1, .ids_known = false});
  EXPECT_TRUE(attempts_.MayResume(*known));
  EXPECT_FALSE(attempts_.MayResume(*unknown));
  EXPECT_EQ(Fail(known), Next::kResume);
  EXPECT_EQ(Fail(unknown), Next::kEnd);
}

TEST_F(DispatchAttemptsTest, IdsThatAreRejectedAreComputedAnewOnce) {
  DispatchEntry* const entry = Add();
  Begin(entry);
  EXPECT_EQ(Fail(entry, Kind::kRejected), Next::kEnd) << "the request is at fault";
  DispatchEntry* const begun = Add();
  Begin(begun);
  attempts_.OnOutput(begun, {.tokens = 1});
  EXPECT_EQ(Fail(begun), Next::kResume);
  Begin(begun, 1);
  EXPECT_EQ(Fail(begun, Kind::kRejected), Next::kResume);
  EXPECT_TRUE(begun->replays);
  Begin(begun, 1);
  EXPECT_EQ(Fail(begun, Kind::kRejected), Next::kEnd);
}

TEST_F(DispatchAttemptsTest, ABusyReplicaSaysWhenToComeAgain) {
  DispatchEntry* const entry = Add();
  entry->retries = options_.failover.max_retries;
  Begin(entry);
  EXPECT_EQ(Fail(entry, Kind::kBusy), Next::kEnd);
  EXPECT_EQ(status_.retry_after_seconds(), 7);
  EXPECT_EQ(entry->failed_on, ReplicaMask{0}) << "it did not fail there";
}

}  // namespace
}  // namespace ropeway::gateway
