#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "policy/fair_policy.h"
#include "policy/policies.h"
#include "scheduler/test_scheduler.h"

namespace ropeway::scheduler {
namespace {

TEST_F(SchedulerTest, AWholePoolOfPromptStartsWhereNoTokenIsWanted) {
  Start(2, {.max_num_seqs = 2, .max_num_batched_tokens = 20});
  Add(32, 0);
  EXPECT_EQ(Step(), "1:0+20");
  EXPECT_EQ(scheduler_->Schedule(base::TimePoint{0}).items[0].num_tokens, 12);
  EXPECT_FALSE(scheduler_->Schedule(base::TimePoint{0}).items[0].sample);
}

TEST_F(SchedulerTest, NothingToDo) {
  Start(4, {.max_num_seqs = 2, .max_num_batched_tokens = 8});
  EXPECT_EQ(Step(), "");
  EXPECT_TRUE(scheduler_->empty());
}

TEST_F(SchedulerTest, MixesDecodesAndChunksAndFillsTheBudgetExactly) {
  Start(16, {.max_num_seqs = 4, .max_num_batched_tokens = 10});
  Add(6);
  Add(20);
  Add(3);
  EXPECT_EQ(Step(), "1:0+6* 2:0+4");
  EXPECT_EQ(head_, "3: max_num_batched_tokens");
  EXPECT_EQ(Step(), "1:6+1* 2:4+9");
  EXPECT_EQ(Step(), "1:7+1* 2:13+7* 3:0+2");
  EXPECT_EQ(Step(), "1:8+1* 2:20+1* 3:2+1*");
  EXPECT_EQ(Step(), "1:9+1* 2:21+1* 3:3+1*");
  EXPECT_EQ(head_, "");
}

TEST_F(SchedulerTest, ChunkLimit) {
  Start(16, {.max_num_seqs = 4, .max_num_batched_tokens = 100, .max_prefill_chunk = 7});
  Add(15);
  Add(7);
  EXPECT_EQ(Step(), "1:0+7 2:0+7*");
  EXPECT_EQ(Step(), "2:7+1* 1:7+7");
  EXPECT_EQ(Step(), "2:8+1* 1:14+1*");
}

// As encoders need them; none generates anything.
class WholePromptsTest : public SchedulerTest {
 protected:
  void StartWhole(int32_t blocks, const SchedulingOptions& options) {
    caching_ = false;
    step_options_.whole_prompts = true;
    Start(blocks, options, policy_.get());
  }

  // A step, as Step() writes it. What it computed ends with it.
  std::string StepToEnd(base::Duration took = kStep) {
    const SchedulerOutput& plan = scheduler_->Schedule(now_);
    now_ += took;
    std::string text;
    std::vector<core::Sequence*> ended;
    for (const ScheduledItem& item : plan.items) {
      text += (text.empty() ? "" : " ") + std::to_string(item.sequence->id()) + ":" +
              std::to_string(item.start) + "+" + std::to_string(item.num_tokens) +
              (item.sample ? "*" : "");
      ended.push_back(item.sequence);
    }
    head_ = plan.head == nullptr
                ? ""
                : std::to_string(plan.head->id()) + ": " + NamesOf(plan.head_blocked_by).text;
    scheduler_->OnStep(took);
    for (core::Sequence* sequence : ended) {
      sequence->computed = sequence->num_ids();
      kv_->OnComputed(sequence);
      scheduler_->Remove(sequence, core::SequenceEvent::kEnd);
    }
    CheckSound();
    EXPECT_EQ(NumRunning(), 0) << "what has started is computed";
    EXPECT_EQ(NumPreempted(), 0);
    return text;
  }

  std::unique_ptr<policy::SchedulingPolicy> policy_;
};

TEST_F(WholePromptsTest, APromptIsComputedInOneStepOrWaits) {
  StartWhole(30, {.max_num_seqs = 8, .max_num_batched_tokens = 100, .max_prefill_chunk = 10});
  for (const int32_t length : {60, 50, 40, 10, 1, 100, 100}) Add(length, 0);
  EXPECT_EQ(StepToEnd(), "1:0+60") << "40 rows are left, which are no whole prompt";
  EXPECT_EQ(head_, "2: max_num_batched_tokens");
  EXPECT_EQ(StepToEnd(), "2:0+50 3:0+40 4:0+10") << "the budget to its end";
  EXPECT_EQ(StepToEnd(), "5:0+1") << "none passes the head of the queue";
  EXPECT_EQ(head_, "6: max_num_batched_tokens");
  EXPECT_EQ(StepToEnd(), "6:0+100");
  EXPECT_EQ(StepToEnd(), "7:0+100");
  EXPECT_TRUE(scheduler_->empty());
}

// Its blocks are for the step alone; nothing is preempted for another one's.
TEST_F(WholePromptsTest, WhatHasNoBlocksWaitsForThoseOfTheStepBefore) {
  StartWhole(5, {.max_num_seqs = 8, .max_num_batched_tokens = 100});
  for (const int32_t length : {48, 40, 80}) Add(length, 0);
  EXPECT_EQ(StepToEnd(), "1:0+48");
  EXPECT_EQ(head_, "2: free KV blocks");
  EXPECT_EQ(StepToEnd(), "2:0+40");
  EXPECT_EQ(StepToEnd(), "3:0+80") << "all blocks";
}

// Between tenants steps are to be short: where a prompt alone is longer, it is computed all the
// same.
TEST_F(WholePromptsTest, AStepBetweenTenantsHoldsOnePromptAtLeast) {
  policy_ = *policy::MakePolicy({.policy = "priority+fair"}, caching_);
  step_options_.learn_cost = true;
  tenant_ = "a";
  StartWhole(300, {.max_num_seqs = 8, .max_num_batched_tokens = 512});
  Add(500, 0);
  EXPECT_EQ(StepToEnd(std::chrono::seconds(5)), "1:0+500") << "no speed is known yet";
  for (const int32_t length : {200, 30, 30, 30}) Add(length, 0);
  EXPECT_EQ(StepToEnd(std::chrono::seconds(2)), "2:0+200");
  EXPECT_EQ(StepToEnd(), "3:0+30 4:0+30") << "64 are the least that a step holds";
  EXPECT_EQ(StepToEnd(), "5:0+30");
}

TEST_F(SchedulerTest, SlotsAreKeptAndTheNextOneFollows) {
  Start(16, {.max_num_seqs = 2, .max_num_batched_tokens = 100});
  core::Sequence* first = Add(4);
  Add(4);
  Add(4);
  EXPECT_EQ(Step(), "1:0+4* 2:0+4*");
  EXPECT_EQ(head_, "3: max_num_seqs");
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "2:4+1* 3:0+4*");
}

TEST_F(SchedulerTest, SlotsNeverOutnumberTheTokens) {
  Start(16, {.max_num_seqs = 8, .max_num_batched_tokens = 2});
  for (int i = 0; i < 4; ++i) Add(2);
  EXPECT_EQ(Step(), "1:0+2*");
  EXPECT_EQ(Step(), "1:2+1* 2:0+1");
  EXPECT_EQ(Step(), "1:3+1* 2:1+1*");
  EXPECT_EQ(head_, "3: max_num_seqs");
  EXPECT_EQ(Step(), "1:4+1* 2:2+1*") << "each running one gets its token in each step";
}

TEST_F(SchedulerTest, NonePassesTheHeadOfTheQueue) {
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  core::Sequence* first = Add(30);  // 2 blocks.
  Add(40);                          // 3 blocks: does not fit beside the first.
  Add(4);                           // Would fit.
  EXPECT_EQ(Step(), "1:0+30*");
  EXPECT_EQ(head_, "2: free KV blocks");
  EXPECT_EQ(Step(), "1:30+1*");
  scheduler_->Remove(first, core::SequenceEvent::kAbort);
  EXPECT_EQ(Step(), "2:0+40* 3:0+4*");
}

TEST_F(SchedulerTest, StartsOnlyWithABlockForTheNextPosition) {
  Start(3, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  Add(31);
  Add(16);  // 1 block for its ids, 2 with the next position.
  EXPECT_EQ(Step(), "1:0+31*");
  EXPECT_EQ(head_, "2: free KV blocks");
}

TEST_F(SchedulerTest, TheNewestIsPreemptedAndResumesBeforeLaterOnes) {
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  core::Sequence* first = Add(15);
  core::Sequence* second = Add(14);
  core::Sequence* third = Add(14);
  EXPECT_EQ(Step(), "1:0+15* 2:0+14* 3:0+14*");
  Add(4);
  EXPECT_EQ(Step(), "1:15+1* 2:14+1* 3:14+1* 4:0+4*");
  EXPECT_EQ(Step(), "1:16+1* 2:15+1* 3:15+1*");
  EXPECT_EQ(preempted_, "4");
  EXPECT_EQ(head_, "4: a preemption in this step");
  EXPECT_EQ(NumPreempted(), 1);
  // The second needs a block: the third is preempted and waits before the fourth.
  EXPECT_EQ(Step(), "1:17+1* 2:16+1*");
  EXPECT_EQ(preempted_, "3");
  EXPECT_EQ(Step(), "1:18+1* 2:17+1*");
  EXPECT_EQ(head_, "3: free KV blocks") << "the fourth is not asked";
  EXPECT_EQ(third->computed, 0);
  EXPECT_EQ(third->num_ids(), 17) << "its ids stay";
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "2:18+1* 3:0+17*") << "all its ids are computed anew, and it goes on";
  EXPECT_EQ(head_, "4: free KV blocks");
  scheduler_->Remove(second, core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "3:17+1* 4:0+5*");
  EXPECT_EQ(third->preemptions, 1);
}

TEST_F(SchedulerTest, TheNewestIsPreemptedEvenForItself) {
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  Add(30);
  Add(31);
  EXPECT_EQ(Step(), "1:0+30* 2:0+31*");
  EXPECT_EQ(Step(), "1:30+1* 2:31+1*");
  EXPECT_EQ(Step(), "1:31+1*") << "the second finds no block and is the newest";
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(Step(), "1:32+1*");
  EXPECT_EQ(preempted_, "");
}

TEST_F(SchedulerTest, APrefillingOneIsPreemptedForADecode) {
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 16});
  Add(15);
  Add(40);
  EXPECT_EQ(Step(), "1:0+15* 2:0+1");
  EXPECT_EQ(Step(), "1:15+1* 2:1+15");
  EXPECT_EQ(Step(), "1:16+1*");
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(NumRunning(), 1);
}

TEST_F(SchedulerTest, RemovesFromEveryState) {
  Start(4, {.max_num_seqs = 2, .max_num_batched_tokens = 100});
  core::Sequence* first = Add(30);
  core::Sequence* second = Add(31);
  core::Sequence* third = Add(4);
  Step();
  Step();
  Step();
  ASSERT_EQ(preempted_, "2");
  scheduler_->Remove(second, core::SequenceEvent::kAbort);
  scheduler_->Remove(third, core::SequenceEvent::kFail);
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  EXPECT_TRUE(scheduler_->empty());
  EXPECT_EQ(NumPreempted(), 0);
  EXPECT_EQ(kv_->pool().num_held(), 0);
  EXPECT_EQ(kv_->pool().num_claimed(), 0);
  CheckSound();
}

TEST_F(SchedulerTest, AResumedOneComputesOnlyWhatIsGone) {
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  core::Sequence* first = Add(30);
  core::Sequence* second = Add(31);
  Step();
  Step();
  EXPECT_EQ(Step(), "1:31+1*");
  ASSERT_EQ(preempted_, "2");
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "2:32+1*") << "both its blocks are still there";
  EXPECT_EQ(second->computed, 33);
}

TEST_F(SchedulerTest, OnesWithTheSamePrefixFollowOneLeader) {
  Start(100, {.max_num_seqs = 8, .max_num_batched_tokens = 100});
  for (int i = 0; i < 3; ++i) Add(210, 1000, 200);
  EXPECT_EQ(Step(), "1:0+100");
  EXPECT_EQ(head_, "2: another request that computes the same prefix");
  Add(5);
  EXPECT_EQ(Step(), "1:100+100") << "the tokens are all the leader's";
  EXPECT_EQ(head_, "4: max_num_batched_tokens");
  // 192 = the full blocks of 200 ids: the rest is each one's own.
  EXPECT_EQ(Step(), "1:200+10* 2:192+18* 3:192+18* 4:0+5*");
}

TEST_F(SchedulerTest, OthersPassFollowers) {
  Start(100, {.max_num_seqs = 8, .max_num_batched_tokens = 150, .max_prefill_chunk = 100});
  Add(210, 1000, 200);
  Add(210, 1000, 200);
  Add(20);
  EXPECT_EQ(Step(), "1:0+100 3:0+20*");
}

TEST_F(SchedulerTest, IfTheLeaderEndsTheNextTakesOver) {
  Start(100, {.max_num_seqs = 8, .max_num_batched_tokens = 100});
  core::Sequence* leader = Add(210, 1000, 200);
  Add(210, 1000, 200);
  Add(210, 1000, 200);
  EXPECT_EQ(Step(), "1:0+100");
  scheduler_->Remove(leader, core::SequenceEvent::kAbort);
  EXPECT_EQ(Step(), "2:96+100") << "from what the leader had finished on";
  EXPECT_EQ(Step(), "2:196+14* 3:192+18*");
}

TEST_F(SchedulerTest, AShortCommonPrefixIsNotWaitedFor) {
  Start(100, {.max_num_seqs = 8, .max_num_batched_tokens = 100});
  Add(70, 1000, 40);
  Add(70, 1000, 40);
  EXPECT_EQ(Step(), "1:0+70* 2:0+30");
  EXPECT_EQ(Step(), "1:70+1* 2:30+40*");
}

TEST_F(SchedulerTest, WithoutCachingNoneFollows) {
  caching_ = false;
  Start(100, {.max_num_seqs = 8, .max_num_batched_tokens = 300});
  Add(110, 1000, 100);
  Add(110, 1000, 100);
  EXPECT_EQ(Step(), "1:0+110* 2:0+110*");
}

TEST_F(SchedulerTest, ABlockedOneWithCachedBlocksCountsThemOnce) {
  Start(5, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  core::Sequence* first = Add(33, 1000, 33);
  EXPECT_EQ(Step(), "1:0+33*");
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  Add(33, 1000, 0);
  Add(33, 1000, 33);  // Two of its three blocks are cached, and not to be evicted for itself.
  EXPECT_EQ(Step(), "2:0+33*");
  EXPECT_EQ(head_, "3: free KV blocks");
}

// Shows that the order is the policy's and the accounting is the scheduler's.
class ShortestPromptFirst final : public policy::SchedulingPolicy {
 public:
  const char* name() const override { return "shortest_prompt"; }
  policy::Rank RankOf(const core::Job& sequence) const override { return {{sequence.prompt_len}}; }
  size_t PickVictim(std::span<const core::Sequence* const> candidates) const override {
    return candidates.size() - 1;
  }
  void OnScheduled(const core::Job&, const policy::ScheduledWork& work) override {
    tokens_ += work.prompt_tokens;
  }
  void OnFinished(const core::Job&, bool completed) override { finished_ += completed ? 1 : 0; }
  int tokens_ = 0;
  int finished_ = 0;
};

TEST_F(SchedulerTest, ThePolicyDecidesTheOrder) {
  ShortestPromptFirst policy;
  Start(16, {.max_num_seqs = 2, .max_num_batched_tokens = 100}, &policy);
  Add(9);
  Add(5);
  core::Sequence* third = Add(2);
  EXPECT_EQ(Step(), "3:0+2* 2:0+5*");
  EXPECT_EQ(head_, "1: max_num_seqs");
  EXPECT_EQ(policy.tokens_, 7);
  scheduler_->Remove(third, core::SequenceEvent::kEnd);
  EXPECT_EQ(policy.finished_, 1);
  EXPECT_EQ(Step(), "2:5+1* 1:0+9*");
}

TEST_F(SchedulerTest, ALeaderRunsAtTheBestRankOfItsFollowers) {
  ShortestPromptFirst policy;
  Start(100, {.max_num_seqs = 3, .max_num_batched_tokens = 100, .max_prefill_chunk = 60}, &policy);
  Add(400, 1000, 330);
  Add(350);
  EXPECT_EQ(Step(), "2:0+60 1:0+40");
  EXPECT_EQ(Step(), "2:60+60 1:40+40") << "the shorter one is first";
  Add(340, 1000, 330);  // Shorter than both, and needs what the first computes.
  EXPECT_EQ(Step(), "2:120+60 1:80+40");
  EXPECT_EQ(head_, "3: another request that computes the same prefix");
  EXPECT_EQ(Step(), "1:120+60 2:180+40");
  EXPECT_EQ(Step(), "1:180+60 2:220+40");
  EXPECT_EQ(Step(), "1:240+60 2:260+40");
  EXPECT_EQ(Step(), "1:300+60 2:300+40");
  EXPECT_EQ(Step(), "3:320+20* 2:340+10* 1:360+40*") << "each at its own rank again";
}

// Preempts the oldest: the scheduler offers it only sequences without work in this step.
class OldestIsVictim final : public policy::SchedulingPolicy {
 public:
  const char* name() const override { return "oldest_is_victim"; }
  policy::Rank RankOf(const core::Job& sequence) const override {
    return {{static_cast<int64_t>(sequence.order)}};
  }
  size_t PickVictim(std::span<const core::Sequence* const>) const override { return 0; }
};

TEST_F(SchedulerTest, WhatHasWorkInThisStepIsNoVictim) {
  OldestIsVictim policy;
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 100}, &policy);
  Add(20);
  Add(31);
  EXPECT_EQ(Step(), "1:0+20* 2:0+31*");
  EXPECT_EQ(Step(), "1:20+1* 2:31+1*");
  EXPECT_EQ(Step(), "1:21+1*")
      << "the first has its token: only the second itself can be preempted";
  EXPECT_EQ(preempted_, "2");
}

class FetchingTest : public SchedulerTest {
 protected:
  FetchingTest() { tier_ = &its_tier_; }

  // The tier has the first `blocks` blocks of the sequence's ids.
  void Store(const core::Sequence& sequence, int32_t blocks) {
    const std::vector<core::BlockName> names = core::ChainNames({}, sequence.ids());
    for (int32_t i = 0; i < blocks; ++i) its_tier_.blocks[names[static_cast<size_t>(i)]] = {};
  }

  // Reads `blocks` blocks as the engine core does.
  void Read(core::Sequence* sequence, int32_t blocks) {
    sequence->computed += blocks * base::kBlockTokens;
    kv_->OnComputed(sequence);
  }

  kvcache::TestTier its_tier_;
};

TEST_F(FetchingTest, FetchesAndThenComputesTheRest) {
  Start(100, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  core::Sequence* a = Add(70);
  Store(*a, 4);
  Add(20);
  EXPECT_EQ(Step(), "2:0+20*") << "none waits for a fetching one";
  EXPECT_EQ(a->state, core::SequenceState::kFetching);
  EXPECT_EQ(NumFetching(), 1);
  Read(a, 3);
  EXPECT_EQ(Step(), "2:20+1*");
  scheduler_->FetchDone(a);  // One block could not be had.
  EXPECT_EQ(Step(), "2:21+1* 1:48+22*");
}

TEST_F(FetchingTest, ASlotIsChargedWhileItFetches) {
  policy::FairPolicy fair;
  Start(100, {.max_num_seqs = 4, .max_num_batched_tokens = 100}, &fair);
  core::Sequence* a = Add(70);
  Store(*a, 4);
  Step();
  ASSERT_EQ(a->state, core::SequenceState::kFetching);
  const int64_t before = fair.ServiceOf(*a);
  Step();
  EXPECT_EQ(fair.ServiceOf(*a) - before, policy::kServiceOfDecode);
}

TEST_F(FetchingTest, OthersFollowAFetchingOne) {
  Start(100, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  core::Sequence* a = Add(100, 1000, 90);
  Store(*a, 5);
  Add(100, 1000, 90);
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(NumRunning(), 1);
  Read(a, 5);
  scheduler_->FetchDone(a);
  EXPECT_EQ(Step(), "1:80+20* 2:80+20*");
}

// Few tokens are pending, but many behind them are in the tier: to compute all would be a waste.
TEST_F(FetchingTest, FollowsForWhatTheTierHasBehind) {
  Start(100, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  Add(17, 1000, 17);
  core::Sequence* b = Add(200, 1000, 200);
  Store(*b, 12);
  const std::vector<core::BlockName> names = core::ChainNames({}, b->ids());
  its_tier_.blocks.erase(names[0]);
  EXPECT_EQ(Step(), "1:0+17*");
  EXPECT_EQ(head_, "2: another request that computes the same prefix");
  EXPECT_EQ(Step(), "1:17+1*");
  EXPECT_EQ(b->state, core::SequenceState::kFetching);
  EXPECT_EQ(b->computed, 16);
}

TEST_F(FetchingTest, AFetchingOneIsPreempted) {
  Start(5, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  Add(15);
  core::Sequence* b = Add(60);
  Store(*b, 3);
  EXPECT_EQ(Step(), "1:0+15*");
  ASSERT_EQ(b->state, core::SequenceState::kFetching);
  EXPECT_EQ(Step(), "1:15+1*");
  Read(b, 1);
  EXPECT_EQ(Step(), "1:16+1*");
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(NumFetching(), 0);
  EXPECT_EQ(b->kv.parked, 16);
}

TEST_F(FetchingTest, RemovesAFetchingOne) {
  Start(100, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  core::Sequence* a = Add(70);
  Store(*a, 4);
  Step();
  scheduler_->Remove(a, core::SequenceEvent::kAbort);
  EXPECT_TRUE(scheduler_->empty());
  EXPECT_EQ(NumFetching(), 0);
  CheckSound();
}

TEST_F(FetchingTest, ReadsOnlyWhereThatIsCheaper) {
  Start(100, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  kv_->read_cost().OnPrefill(1000, std::chrono::seconds(1));
  kv_->read_cost().OnRead(1, std::chrono::seconds(1));
  core::Sequence* a = Add(70);
  Store(*a, 4);
  EXPECT_EQ(Step(), "1:0+70*");
}

}  // namespace
}  // namespace ropeway::scheduler
