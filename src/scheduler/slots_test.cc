#include "scheduler/slots.h"

#include <gtest/gtest.h>

#include <chrono>

#include "scheduler/test_slots.h"

namespace ropeway::scheduler {
namespace {

TEST_F(SlotsTest, ASequenceMovesBetweenTheListsWithItsLoadAndItsTenant) {
  Begin({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 8);
  core::Sequence* const sequence = Add(20, "a");
  EXPECT_EQ(load_.tokens(), 20);
  EXPECT_EQ(slots_->queue().size(), 1U);
  Start(sequence);
  EXPECT_EQ(load_.tokens(), 0);
  EXPECT_EQ(slots_->num_running(), 1);
  EXPECT_EQ(tenants_->Of(*sequence).slots, 1);
  EXPECT_DOUBLE_EQ(tenants_->Of(*sequence).blocks, 2);
  EXPECT_EQ(step_.started.size(), 1U);
  slots_->Preempt(sequence, PreemptReason::kMemory);
  EXPECT_EQ(load_.tokens(), 20);
  EXPECT_EQ(tenants_->Of(*sequence).slots, 0);
  EXPECT_EQ(kv_->pool().num_held(), 0);
  EXPECT_EQ(Preempted(), "1:memory");
  Start(sequence);
  EXPECT_EQ(step_.started.size(), 1U) << "it resumed";
  slots_->Remove(sequence, core::SequenceEvent::kAbort);
  EXPECT_EQ(slots_->num_running(), 0);
  EXPECT_TRUE(tenants_->all()[0].sequences == 0);
}

TEST_F(SlotsTest, TheLimitIsWithinTheSlotsAndTheTokens) {
  Begin({.max_num_seqs = 8, .max_num_batched_tokens = 2}, 8);
  EXPECT_EQ(slots_->max(), 2);
  slots_->set_limit(100);
  EXPECT_EQ(slots_->limit(), 2);
  Run(4);
  Run(4);
  slots_->set_limit(0);
  EXPECT_EQ(slots_->limit(), 1);
  EXPECT_EQ(slots_->taken_or_limit(), 2) << "running ones keep theirs";
}

TEST_F(SlotsTest, FitsAsksForABlockForTheNextPosition) {
  Begin({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 2);
  core::Sequence* const whole = Add(32);
  EXPECT_FALSE(slots_->Fits(*whole, kv_->Lookup(whole)));
  EXPECT_TRUE(slots_->Fits(*whole, kv_->Lookup(whole), 1));
  whole->request.max_tokens = 0;
  EXPECT_TRUE(slots_->Fits(*whole, kv_->Lookup(whole))) << "it wants no token";
}

TEST_F(SlotsTest, OneFollowsWhoComputesALongPrefixOfIt) {
  Begin({.max_num_seqs = 4, .max_num_batched_tokens = 64}, 32);
  Run(100, "", 80);
  core::Sequence* const follower = Add(100, "", 80);
  kvcache::CachedPrefix prefix = kv_->Lookup(follower);
  EXPECT_TRUE(slots_->Follow(follower, &prefix));
  EXPECT_EQ(follower->sched.follows, 5);
  core::Sequence* const other = Add(100, "", Slots::kMinFollowTokens - 1);
  prefix = kv_->Lookup(other);
  EXPECT_FALSE(slots_->Follow(other, &prefix));
  EXPECT_EQ(prefix.pending_end, 0) << "it computes the short prefix itself";
}

TEST_F(SlotsTest, WhoGivesAwayATurnIsNotCountedAsPreemptedForIt) {
  Begin({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 8);
  core::Sequence* const sequence = Run(4);
  slots_->Preempt(sequence, PreemptReason::kFairness);
  EXPECT_EQ(sequence->preemptions, 1);
  EXPECT_EQ(sequence->sched.turns_given, 1);
  Start(sequence);
  slots_->Preempt(sequence, PreemptReason::kPriority);
  EXPECT_EQ(sequence->preemptions, 2);
  EXPECT_EQ(sequence->sched.turns_given, 1);
}

TEST_F(SlotsTest, AnAgedOneIsPastMaxWaitAgainAtOnce) {
  Begin({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 8);
  core::Sequence* const sequence = Run(4);
  sequence->sched.aged = true;
  slots_->Preempt(sequence, PreemptReason::kMemory);
  EXPECT_EQ(slots_->now() - sequence->sched.queued_since, kMaxWait);
}

TEST_F(SlotsTest, WhatIsPreemptedBeforeItsReadIsNotRead) {
  kvcache::TestTier tier;
  Begin({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 32, &tier);
  core::Sequence* const sequence = Add(320);
  for (const core::BlockName& name : core::ChainNames({}, sequence->ids())) tier.blocks[name] = {};
  Start(sequence);
  EXPECT_EQ(sequence->state, core::SequenceState::kFetching);
  EXPECT_EQ(step_.fetches.size(), 1U);
  slots_->Preempt(sequence, PreemptReason::kPriority);
  EXPECT_TRUE(step_.fetches.empty());
}

TEST_F(SlotsTest, AListedSequenceInAnotherStateIsFound) {
  Begin({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 8);
  core::Sequence* const sequence = Run(4);
  sequence->state = core::SequenceState::kWaiting;
  EXPECT_EQ(slots_->CheckIntegrity().message(), "sequence 1 (waiting) is on the running list");
  sequence->state = core::SequenceState::kPrefilling;
}

}  // namespace
}  // namespace ropeway::scheduler
