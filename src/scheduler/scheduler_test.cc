#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "policy/fcfs.h"

namespace ropeway {
namespace {

// Runs plans as the engine core would, with a made-up token for each sample. A plan reads as
// "1:0+8 2:40+1*": sequence:start+tokens, and a star where the next token is sampled.
class SchedulerTest : public testing::Test {
 protected:
  void Start(int32_t blocks, const SchedulerOptions& options, SchedulingPolicy* policy = nullptr) {
    kv_ = std::make_unique<KvCacheManager>(blocks);
    scheduler_ = std::make_unique<Scheduler>(options, policy != nullptr ? policy : &fcfs_,
                                             kv_.get(), &mover_);
  }

  Sequence* Add(int32_t prompt_len, int32_t max_tokens = 1000) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = sequences_.size() + 1;
    sequence->order = sequences_.size();
    sequence->ids.assign(static_cast<size_t>(prompt_len), 0);
    sequence->prompt_len = prompt_len;
    sequence->max_tokens = max_tokens;
    scheduler_->Add(sequence.get());
    sequences_.push_back(std::move(sequence));
    return sequences_.back().get();
  }

  std::string Step() {
    const Schedule& plan = scheduler_->Plan(TimePoint{0});
    std::string text;
    int tokens = 0;
    for (const ScheduledItem& item : plan.items) {
      if (!text.empty()) text += ' ';
      text += std::to_string(item.sequence->id) + ":" + std::to_string(item.start) + "+" +
              std::to_string(item.num_tokens) + (item.sample ? "*" : "");
      item.sequence->computed += item.num_tokens;
      tokens += item.num_tokens;
      EXPECT_GE(item.sequence->blocks.size(),
                static_cast<size_t>(BlocksFor(item.sequence->computed)));
      if (!item.sample) continue;
      item.sequence->ids.push_back(0);
      if (item.sequence->state == SequenceState::kPrefilling) {
        mover_.Move(item.sequence->id, &item.sequence->state, SequenceEvent::kCaughtUp);
      }
    }
    EXPECT_EQ(tokens, plan.num_tokens);
    preempted_.clear();
    for (const Sequence* sequence : plan.preempted) preempted_ += std::to_string(sequence->id);
    head_ = plan.head == nullptr
                ? ""
                : std::to_string(plan.head->id) + ": " + BlockedByName(plan.head_blocked_by);
    CheckSound();
    return text;
  }

  void CheckSound() {
    Status status = scheduler_->CheckIntegrity();
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<const std::vector<BlockId>*> tables;
    for (const auto& sequence : sequences_) tables.push_back(&sequence->blocks);
    status = kv_->CheckIntegrity(tables);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  FcfsPolicy fcfs_;
  SequenceMover mover_;
  std::unique_ptr<KvCacheManager> kv_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::string preempted_;  // Of the last step: ids in order.
  std::string head_;
};

TEST_F(SchedulerTest, AWholePoolOfPromptStartsWhereNoTokenIsWanted) {
  Start(2, {.max_num_seqs = 2, .max_num_batched_tokens = 20});
  Add(32, 0);
  EXPECT_EQ(Step(), "1:0+20");
  EXPECT_EQ(scheduler_->Plan(TimePoint{0}).items[0].num_tokens, 12);
  EXPECT_FALSE(scheduler_->Plan(TimePoint{0}).items[0].sample);
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

TEST_F(SchedulerTest, PlacesAreKeptAndTheNextOneFollows) {
  Start(16, {.max_num_seqs = 2, .max_num_batched_tokens = 100});
  Sequence* first = Add(4);
  Add(4);
  Add(4);
  EXPECT_EQ(Step(), "1:0+4* 2:0+4*");
  EXPECT_EQ(head_, "3: max_num_seqs");
  scheduler_->Remove(first, SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "2:4+1* 3:0+4*");
}

TEST_F(SchedulerTest, PlacesNeverOutnumberTheTokens) {
  Start(16, {.max_num_seqs = 8, .max_num_batched_tokens = 2});
  for (int i = 0; i < 4; ++i) Add(2);
  EXPECT_EQ(Step(), "1:0+2*");
  EXPECT_EQ(Step(), "1:2+1* 2:0+1");
  EXPECT_EQ(Step(), "1:3+1* 2:1+1*");
  EXPECT_EQ(head_, "3: max_num_seqs");
  EXPECT_EQ(Step(), "1:4+1* 2:2+1*") << "each running one gets its token in each step";
}

TEST_F(SchedulerTest, NobodyPassesTheHeadOfTheLine) {
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  Sequence* first = Add(30);  // 2 blocks.
  Add(40);                    // 3 blocks: does not fit beside the first.
  Add(4);                     // Would fit.
  EXPECT_EQ(Step(), "1:0+30*");
  EXPECT_EQ(head_, "2: free KV blocks");
  EXPECT_EQ(Step(), "1:30+1*");
  scheduler_->Remove(first, SequenceEvent::kAbort);
  EXPECT_EQ(Step(), "2:0+40* 3:0+4*");
}

TEST_F(SchedulerTest, StartsOnlyWithABlockForTheNextPosition) {
  Start(3, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  Add(31);
  Add(16);  // 1 block for its ids, 2 with the next position.
  EXPECT_EQ(Step(), "1:0+31*");
  EXPECT_EQ(head_, "2: free KV blocks");
}

TEST_F(SchedulerTest, TheNewestGivesWayAndComesBackBeforeLaterOnes) {
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  Sequence* first = Add(15);
  Sequence* second = Add(14);
  Sequence* third = Add(14);
  EXPECT_EQ(Step(), "1:0+15* 2:0+14* 3:0+14*");
  Add(4);
  EXPECT_EQ(Step(), "1:15+1* 2:14+1* 3:14+1* 4:0+4*");
  EXPECT_EQ(Step(), "1:16+1* 2:15+1* 3:15+1*");
  EXPECT_EQ(preempted_, "4");
  EXPECT_EQ(head_, "4: a preemption in this step");
  EXPECT_EQ(scheduler_->num_preempted(), 1);
  // The second needs a block: the third gives its one away and waits before the fourth.
  EXPECT_EQ(Step(), "1:17+1* 2:16+1*");
  EXPECT_EQ(preempted_, "3");
  EXPECT_EQ(Step(), "1:18+1* 2:17+1*");
  EXPECT_EQ(head_, "3: free KV blocks") << "the fourth is not asked";
  EXPECT_EQ(third->computed, 0);
  EXPECT_EQ(third->num_ids(), 17) << "its ids stay";
  scheduler_->Remove(first, SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "2:18+1* 3:0+17*") << "all its ids are computed anew, and it goes on";
  EXPECT_EQ(head_, "4: free KV blocks");
  scheduler_->Remove(second, SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "3:17+1* 4:0+5*");
  EXPECT_EQ(third->preemptions, 1);
}

TEST_F(SchedulerTest, TheNewestGivesWayEvenToItself) {
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

TEST_F(SchedulerTest, APrefillingOneGivesWayToADecode) {
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 16});
  Add(15);
  Add(40);
  EXPECT_EQ(Step(), "1:0+15* 2:0+1");
  EXPECT_EQ(Step(), "1:15+1* 2:1+15");
  EXPECT_EQ(Step(), "1:16+1*");
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(scheduler_->num_running(), 1);
}

TEST_F(SchedulerTest, RemovesFromEveryState) {
  Start(4, {.max_num_seqs = 2, .max_num_batched_tokens = 100});
  Sequence* first = Add(30);
  Sequence* second = Add(31);
  Sequence* third = Add(4);
  Step();
  Step();
  Step();
  ASSERT_EQ(preempted_, "2");
  scheduler_->Remove(second, SequenceEvent::kAbort);
  scheduler_->Remove(third, SequenceEvent::kFail);
  scheduler_->Remove(first, SequenceEvent::kEnd);
  EXPECT_TRUE(scheduler_->empty());
  EXPECT_EQ(scheduler_->num_preempted(), 0);
  EXPECT_EQ(kv_->pool().num_free(), 4);
  CheckSound();
}

// Another policy, to see that the order is the policy's and the accounts are the scheduler's.
class ShortestPromptFirst final : public SchedulingPolicy {
 public:
  const char* name() const override { return "shortest_prompt"; }
  int64_t Rank(const Sequence& sequence, TimePoint) const override { return sequence.prompt_len; }
  size_t PickVictim(std::span<const Sequence* const> candidates) const override {
    return candidates.size() - 1;
  }
  void OnScheduled(const Sequence&, int32_t tokens) override { tokens_ += tokens; }
  void OnFinished(const Sequence&) override { ++finished_; }
  int tokens_ = 0;
  int finished_ = 0;
};

TEST_F(SchedulerTest, ThePolicyDecidesTheOrder) {
  ShortestPromptFirst policy;
  Start(16, {.max_num_seqs = 2, .max_num_batched_tokens = 100}, &policy);
  Add(9);
  Add(5);
  Sequence* third = Add(2);
  EXPECT_EQ(Step(), "3:0+2* 2:0+5*");
  EXPECT_EQ(head_, "1: max_num_seqs");
  EXPECT_EQ(policy.tokens_, 7);
  scheduler_->Remove(third, SequenceEvent::kEnd);
  EXPECT_EQ(policy.finished_, 1);
  EXPECT_EQ(Step(), "2:5+1* 1:0+9*");
}

// A policy that gives up the oldest: the scheduler offers it only those without work in this step.
class OldestGivesWay final : public SchedulingPolicy {
 public:
  const char* name() const override { return "oldest_gives_way"; }
  int64_t Rank(const Sequence& sequence, TimePoint) const override {
    return static_cast<int64_t>(sequence.order);
  }
  size_t PickVictim(std::span<const Sequence* const>) const override { return 0; }
  void OnScheduled(const Sequence&, int32_t) override {}
  void OnFinished(const Sequence&) override {}
};

TEST_F(SchedulerTest, WhatHasWorkInThisStepIsNoVictim) {
  OldestGivesWay policy;
  Start(4, {.max_num_seqs = 4, .max_num_batched_tokens = 100}, &policy);
  Add(20);
  Add(31);
  EXPECT_EQ(Step(), "1:0+20* 2:0+31*");
  EXPECT_EQ(Step(), "1:20+1* 2:31+1*");
  EXPECT_EQ(Step(), "1:21+1*") << "the first has its token: the second can only give way itself";
  EXPECT_EQ(preempted_, "2");
}

}  // namespace
}  // namespace ropeway
