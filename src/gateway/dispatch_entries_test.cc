#include "gateway/dispatch_entries.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace ropeway::gateway {
namespace {

using std::chrono::seconds;

TEST(DispatchTenantsTest, ATenantGoesWithItsLastRequest) {
  DispatchTenants tenants(4, 2);
  DispatchTenants::Tenant* const a = tenants.Enter("a", 1.0);
  EXPECT_EQ(tenants.Enter("a", 2.0), a);
  EXPECT_EQ(a->weight, 2.0) << "the newest request's";
  tenants.Leave("a");
  EXPECT_EQ(tenants.all().size(), 1U);
  tenants.Leave("a");
  EXPECT_TRUE(tenants.all().empty());
  EXPECT_EQ(tenants.newcomers(), 0);
}

TEST(DispatchTenantsTest, WhoRunsSomethingIsNoNewcomer) {
  DispatchTenants tenants(2, 3);
  DispatchTenants::Tenant* const a = tenants.Enter("a", 1.0);
  DispatchTenants::Tenant* const b = tenants.Enter("b", 1.0);
  EXPECT_EQ(tenants.newcomers(), 2);
  tenants.Enter("a", 1.0);
  tenants.CountAttempt(a, 2, 1);
  tenants.CountAttempt(a, 2, 1);
  EXPECT_EQ(tenants.newcomers(), 1);
  EXPECT_TRUE(tenants.expects_newcomers()) << "b has nothing that runs";
  EXPECT_EQ(a->there, MaskOf(2));
  tenants.CountAttempt(b, 0, 1);
  EXPECT_FALSE(tenants.expects_newcomers()) << "both that are expected run something";
  tenants.CountAttempt(a, 2, -1);
  EXPECT_EQ(a->there, MaskOf(2)) << "one is left";
  tenants.CountAttempt(a, 2, -1);
  EXPECT_EQ(a->there, ReplicaMask{0});
  EXPECT_TRUE(a->is_newcomer());
}

TEST(DispatchTenantsTest, SharesAreByWeightOfThoseThatAreThere) {
  DispatchTenants tenants(10, 1);
  DispatchTenants::Tenant* const a = tenants.Enter("a", 1.0);
  for (int i = 0; i < 7; ++i) tenants.Enter("a", 1.0);
  EXPECT_FALSE(tenants.HasItsShare(*a, 0)) << "the first one is always within it";
  for (int i = 0; i < 2; ++i) tenants.CountAttempt(a, 0, 1);
  EXPECT_FALSE(tenants.HasItsShare(*a, 8)) << "it is alone";
  tenants.Enter("b", 3.0);
  EXPECT_TRUE(tenants.HasItsShare(*a, 8)) << "a quarter of 8 places";
  EXPECT_FALSE(tenants.HasItsShare(*a, 12)) << "a quarter of 12";
  DispatchTenants one(1, 1);
  DispatchTenants::Tenant* const all = one.Enter("a", 1.0);
  one.Enter("b", 1.0);
  one.CountAttempt(all, 0, 1);
  EXPECT_FALSE(one.HasItsShare(*all, 1)) << "nothing is divided";
}

TEST(DispatchTenantsTest, ARecountTellsWhatIsWrong) {
  DispatchTenants counted(2, 2);
  DispatchTenants again(2, 2);
  for (DispatchTenants* tenants : {&counted, &again}) {
    DispatchTenants::Tenant* const a = tenants->Enter("a", 1.0);
    tenants->CountUrgent(a, 1);
    tenants->CountAttempt(a, 1, 1);
  }
  EXPECT_TRUE(counted.CountsAs(again));
  EXPECT_EQ(counted.urgent(), 1);
  again.CountUrgent(again.Enter("b", 1.0), 1);
  EXPECT_FALSE(counted.CountsAs(again));
}

class DispatchBatchesTest : public testing::Test {
 protected:
  uint64_t Start(int32_t members, bool joins = false) {
    batches_.Reserve();
    return batches_.Start(
        {.members = members, .prompt_tokens = 10, .size = members, .joins = joins}, now_);
  }
  int MayStart(int waiting) {
    return batches_.MayStart(
        {.waiting = waiting, .oldest = now_, .urgent = false, .free_slots = 64}, now_);
  }

  base::TimePoint now_ = seconds(100);
  DispatchBatches batches_{
      {.strategy = "dynamic", .max_batch_size = 2, .batch_timeout = seconds(1)}, 2};
};

TEST_F(DispatchBatchesTest, SoManyRunAtOnce) {
  EXPECT_EQ(MayStart(5), 2);
  EXPECT_EQ(Start(2), 1U);
  EXPECT_EQ(Start(2), 2U);
  EXPECT_EQ(MayStart(5), 0);
  batches_.Leave(1, now_);
  EXPECT_EQ(MayStart(5), 0) << "a member of it is under way";
  batches_.Leave(1, now_);
  EXPECT_EQ(MayStart(5), 2);
}

TEST_F(DispatchBatchesTest, OnesThatJoinAreWaitedForByNone) {
  Start(2);
  const uint64_t joined = Start(3, true);
  EXPECT_EQ(batches_.joined(), 3);
  EXPECT_TRUE(batches_.may_run_more());
  EXPECT_EQ(batches_.filling_since(true), base::TimePoint::max());
  batches_.Leave(joined, now_);
  EXPECT_EQ(batches_.joined(), 2);
}

TEST_F(DispatchBatchesTest, CountsWhatStartedAndHowLongItTook) {
  const uint64_t first = Start(2);
  Start(1);
  EXPECT_EQ(batches_.Members(), (std::map<uint64_t, int32_t>{{1, 2}, {2, 1}}));
  now_ += seconds(3);
  for (int i = 0; i < 2; ++i) batches_.Leave(first, now_);
  EXPECT_EQ(batches_.counts().batches, 2U);
  EXPECT_EQ(batches_.counts().batched, 3U);
  EXPECT_EQ(batches_.counts().batches_ended, 1U);
  EXPECT_DOUBLE_EQ(batches_.counts().batch_seconds, 3.0);
}

TEST_F(DispatchBatchesTest, APartOfABatchFillsUntilItsTime) {
  EXPECT_EQ(MayStart(1), 0);
  EXPECT_EQ(batches_.filling_since(false), now_);
  EXPECT_EQ(batches_.next_look(), now_ + seconds(1));
  Start(1);
  EXPECT_EQ(batches_.filling_since(false), base::TimePoint::max());
}

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
  EXPECT_EQ(Integrity(), "the dispatcher's count of its tenants' requests is wrong");
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
  EXPECT_EQ(
      entries_.CheckReplicas(replicas).message(),
      "the dispatcher counts 0 requests, 0 tokens and 0 tenants at y, but there are 1, 5 and 1");
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
