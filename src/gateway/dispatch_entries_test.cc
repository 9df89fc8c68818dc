#include "gateway/dispatch_entries.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace ropeway::gateway {
namespace {

class DispatchEntriesTest : public testing::Test {
 protected:
  DispatchEntry* Add(const std::string& tenant, Priority priority = Priority::kMedium) {
    DispatchRequest request;
    request.id = ++last_id_;
    request.tenant = tenant;
    request.priority = priority;
    request.prompt_tokens = 20;
    entries_.Reserve(1);
    DispatchEntry* const entry =
        entries_.Insert(std::make_unique<DispatchEntry>(std::move(request), last_id_));
    EXPECT_TRUE(entries_.places().Take(tenant, 1, &entry->place));
    entries_.Wait(entry);
    return entry;
  }
  void Send(DispatchEntry* entry, int replica) {
    entries_.StopWaiting(entry);
    entry->place.Release();
    entry->state = core::SequenceState::kPrefilling;
    entries_.Send(entry, replica);
  }
  std::string Integrity() const { return entries_.CheckIntegrity().message(); }

  DispatchEntries entries_{3, 2, 100};
  RequestId last_id_ = 0;
};

TEST_F(DispatchEntriesTest, EachIsOnOneListAndFoundById) {
  DispatchEntry* const a = Add("a");
  DispatchEntry* const b = Add("b", Priority::kHigh);
  DispatchEntry* const c = Add("a");
  EXPECT_EQ(a->num_ids(), 20);
  Send(a, 1);
  EXPECT_EQ(Integrity(), "");
  EXPECT_EQ(entries_.waiting().size(), 2U);
  EXPECT_EQ(entries_.running(), DispatchEntries::List{a});
  EXPECT_EQ(entries_.tenants().urgent(), 1);
  EXPECT_EQ(entries_.tenants().newcomers(), 1) << "b";
  entries_.StopWaiting(b);
  entries_.Remove(b);
  EXPECT_EQ(entries_.Find(2), nullptr);
  EXPECT_EQ(entries_.Find(3), c);
  EXPECT_EQ(entries_.tenants().urgent(), 0);
  EXPECT_EQ(Integrity(), "");
}

TEST_F(DispatchEntriesTest, AnAttemptIsKnownByItsNumber) {
  DispatchEntry* const a = Add("a");
  EXPECT_EQ(entries_.FindAttempt(1, 0), nullptr) << "none is under way";
  Send(a, 1);
  EXPECT_EQ(entries_.FindAttempt(1, 1), a);
  EXPECT_EQ(entries_.FindAttempt(1, 2), nullptr);
  DispatchEntry* const other = Add("a");
  Send(other, 1);
  EXPECT_FALSE(entries_.EndAttempt(a)) << "its tenant has another one there";
  EXPECT_EQ(entries_.FindAttempt(1, 1), nullptr);
  EXPECT_TRUE(entries_.EndAttempt(other));
  a->state = core::SequenceState::kPreempted;
  entries_.Wait(a);
  Send(a, 0);
  EXPECT_EQ(entries_.FindAttempt(1, 2), a);
}

TEST_F(DispatchEntriesTest, TheEarliestTimerIsFirst) {
  EXPECT_EQ(entries_.first_timer(), base::TimePoint::max());
  DispatchEntry* const a = Add("a");
  DispatchEntry* const b = Add("b");
  entries_.SetTimer(b, base::TimePoint{5});
  entries_.SetTimer(a, base::TimePoint{7});
  EXPECT_EQ(entries_.first_due(), b);
  entries_.SetTimer(b, base::TimePoint{9});
  EXPECT_EQ(entries_.first_due(), a);
  EXPECT_EQ(entries_.first_timer(), base::TimePoint{7});
  EXPECT_EQ(Integrity(), "");
}

TEST_F(DispatchEntriesTest, WhatDoesNotFitIsNamed) {
  DispatchEntry* const a = Add("a");
  Add("b");
  a->state = core::SequenceState::kDecoding;
  EXPECT_EQ(Integrity(), "the dispatcher has request 1 on the wrong list");
  a->state = core::SequenceState::kWaiting;
  a->index = 1;
  EXPECT_EQ(Integrity(), "the dispatcher has request 1 out of place");
  a->index = 0;
  a->timer = base::TimePoint{3};
  EXPECT_EQ(Integrity(), "the dispatcher has request 1 without its timer");
  a->timer = base::TimePoint::max();
  a->request.priority = Priority::kHigh;
  EXPECT_EQ(Integrity(), "the dispatcher counts its tenants' requests wrongly");
  a->request.priority = Priority::kMedium;
  a->place.Release();
  EXPECT_EQ(Integrity(), "the dispatcher has request 1 with a wrong place in the queue");
  ASSERT_TRUE(entries_.places().Take("a", 1, &a->place));
  EXPECT_EQ(Integrity(), "");
}

TEST_F(DispatchEntriesTest, ReplicasAndBatchesAreHeldAgainstThem) {
  Replicas replicas({{.name = "x"}, {.name = "y"}}, ReplicaRules());
  DispatchBatches batches({}, 1);
  DispatchEntry* const a = Add("a");
  Send(a, 1);
  a->tokens_left = 5;
  EXPECT_EQ(entries_.CheckReplicas(replicas).message(),
            "the dispatcher counts 0 requests, 0 tokens and 0 tenants at y, there are 1, 5 and 1");
  replicas[1].OnSent(5, true, base::TimePoint{1});
  EXPECT_TRUE(entries_.CheckReplicas(replicas).ok());
  EXPECT_TRUE(entries_.CheckBatches(batches).ok());
  a->batch = 1;
  EXPECT_FALSE(entries_.CheckBatches(batches).ok());
  batches.Reserve();
  batches.Start({.members = 1, .prompt_tokens = 20, .size = 1}, base::TimePoint{1});
  EXPECT_TRUE(entries_.CheckBatches(batches).ok());
}

}  // namespace
}  // namespace ropeway::gateway
