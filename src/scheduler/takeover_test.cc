#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "scheduler/preemption.h"
#include "scheduler/test_slots.h"

namespace ropeway::scheduler {
namespace {

class TakeoverTest : public SlotsTest {
 protected:
  void Begin(SchedulingOptions options, int32_t blocks = 64) {
    options.max_num_batched_tokens = 64;
    SlotsTest::Begin(options, blocks);
    urgent_ = std::make_unique<UrgentSteps>(&policy_, 0);
    takeover_ = std::make_unique<Takeover>(options, DueOptions{.max_wait = kMaxWait}, &policy_,
                                           kv_.get(), urgent_.get(), tenants_.get(), slots_.get());
    takeover_->Reserve(32, 32);
  }
  core::Sequence* RunLow(int32_t prompt = 4) {
    core::Sequence* const sequence = Run(prompt);
    sequence->request.priority = Priority::kLow;
    sequence->sched.run_steps = kMinRunSteps;
    return sequence;
  }
  core::Sequence* AddHigh(int32_t prompt = 4) {
    core::Sequence* const sequence = Add(prompt);
    sequence->request.priority = Priority::kHigh;
    return sequence;
  }
  // Runs the phase in the next step.
  void Take(int steps = 1, double step_seconds = 0.0) {
    NextStep(steps);
    takeover_->Run(step_seconds, order_.get());
  }

  std::unique_ptr<UrgentSteps> urgent_;
  std::unique_ptr<Takeover> takeover_;
};

TEST_F(TakeoverTest, AHigherClassTakesASlot) {
  Begin({.max_num_seqs = 2});
  RunLow();
  RunLow();
  core::Sequence* const high = AddHigh();
  Take();
  EXPECT_EQ(Preempted(), "2:priority");
  EXPECT_TRUE(high->running());
  EXPECT_TRUE(order_->queue.empty());
  EXPECT_EQ(order_->running.size(), 3U) << "what was preempted stays in the order";
}

TEST_F(TakeoverTest, NothingIsPreemptedIfItMakesNoRoom) {
  Begin({.max_num_seqs = 4}, 6);
  RunLow(20);
  core::Sequence* const aged = Run(40);
  AddHigh(100);
  Take();
  EXPECT_EQ(Preempted(), "");
  EXPECT_TRUE(aged->running());
}

TEST_F(TakeoverTest, BlocksAreTakenOneVictimAtATime) {
  Begin({.max_num_seqs = 4}, 6);
  RunLow(20);
  RunLow(20);
  RunLow(20);
  AddHigh(20);
  Take();
  EXPECT_EQ(Preempted(), "3:blocks");
}

TEST_F(TakeoverTest, WhoRanForFewStepsOrWasPreemptedOftenOrGeneratedMuchIsSpared) {
  Begin({.max_num_seqs = 3, .preempt_max_generated = 1});
  RunLow()->sched.run_steps = kMinRunSteps - 1;
  RunLow()->preemptions = policy::kMaxPreemptions;
  Decode(RunLow());
  AddHigh();
  Take();
  EXPECT_EQ(Preempted(), "");
}

TEST_F(TakeoverTest, AnAgedOneTakesTheSlotOfALaterArrival) {
  Begin({.max_num_seqs = 1});
  core::Sequence* const aged = Add(4);
  core::Sequence* const later = Run(4);
  later->sched.run_steps = kMinRunSteps;
  Take();
  EXPECT_EQ(Preempted(), "");
  aged->sched.aged = true;
  Take();
  EXPECT_EQ(Preempted(), "2:aging");
  EXPECT_TRUE(aged->running());
}

TEST_F(TakeoverTest, ATenantBelowItsShareTakesASlot) {
  Begin({.max_num_seqs = 2});
  Run(4, "a");
  Run(4, "a");
  core::Sequence* const other = Add(4, "b");
  policy_.service["a"] = 2 * policy::kServiceQuantum;
  Take(kLater);
  EXPECT_EQ(Preempted(), "2:fairness");
  EXPECT_TRUE(other->running());
  EXPECT_TRUE(other->sched.first_turn) << "its tenant had no slot";
  Add(4, "b");
  Take(kLater);
  EXPECT_EQ(Preempted(), "") << "each has one";
}

TEST_F(TakeoverTest, ATurnPreemptsNoneIfItMakesNoRoom) {
  Begin({.max_num_seqs = 3}, 8);
  Run(20, "a");
  Run(20, "a");
  Run(4, "c");
  Add(120, "b");
  policy_.service["a"] = 2 * policy::kServiceQuantum;
  Take(kLater);
  EXPECT_EQ(Preempted(), "");
}

TEST_F(TakeoverTest, AFollowerNeedsNoSlot) {
  Begin({.max_num_seqs = 1});
  core::Sequence* const low = Run(100, "", 80);
  low->request.priority = Priority::kLow;
  low->sched.run_steps = kMinRunSteps;
  core::Sequence* const high = Add(100, "", 80);
  high->request.priority = Priority::kHigh;
  Take();
  EXPECT_EQ(Preempted(), "");
  EXPECT_GT(high->sched.follows, 0);
  EXPECT_TRUE(order_->queue.empty());
}

TEST_F(TakeoverTest, WhatIsDueTakesASlotOfItsOwnTenant) {
  Begin({.max_num_seqs = 2});
  Run(4, "a");
  Run(4, "a");
  core::Sequence* const due = Add(4, "a");
  Take(kLater, 0.0001);
  EXPECT_EQ(Preempted(), "") << "there is time";
  Take(kLater, 2.0);
  EXPECT_EQ(Preempted(), "2:aging");
  EXPECT_TRUE(due->running());
}

class DueListTest : public SlotsTest {
 protected:
  DueListTest() { Begin({.max_num_seqs = 4, .max_num_batched_tokens = 64}, 64); }
  // Ids of what is due at that time, with steps of a tenth of a second.
  std::string At(double seconds) {
    DueList list({.max_wait = std::chrono::seconds(10), .chunk = chunk_}, tenants_.get());
    list.Reserve(32);
    std::string text;
    for (const core::Sequence* sequence :
         list.Find(slots_->queue(), base::TimePoint(static_cast<int64_t>(seconds * 1e9)), 0.1)) {
      text += std::to_string(sequence->id());
    }
    return text;
  }

  int32_t chunk_ = 32;
};

TEST_F(DueListTest, TheLastOneMustStartAtItsTime) {
  Add(4);
  EXPECT_EQ(At(9.8), "");
  EXPECT_EQ(At(9.91), "1");
}

TEST_F(DueListTest, TheFirstStartsEarlierForThoseBehindIt) {
  for (int i = 0; i < 3; ++i) Add(4);
  // Each start after kMinRunSteps of the one before: 1.7 s for the third.
  EXPECT_EQ(At(8.2), "");
  EXPECT_EQ(At(8.31), "1");
}

TEST_F(DueListTest, APromptTakesStepsByTheChunkOfTheDevice) {
  for (int i = 0; i < 2; ++i) Add(320);
  // The second one starts 8 + 10 steps after the first.
  EXPECT_EQ(At(8.05), "");
  EXPECT_EQ(At(8.15), "1");
  chunk_ = 320;  // 8 + 1 steps.
  EXPECT_EQ(At(8.95), "");
  EXPECT_EQ(At(9.05), "1");
}

TEST_F(DueListTest, MoreSlotsOfATenantStartMore) {
  for (int i = 0; i < 4; ++i) Run(4, "a");
  for (int i = 0; i < 4; ++i) Add(4, "a");
  NextStep(kLater);
  EXPECT_EQ(At(8.5), "");
  EXPECT_EQ(At(9.95), "56");
}

TEST_F(DueListTest, EachTenantHasItsOwn) {
  Add(4, "a");
  Add(4, "b");
  EXPECT_EQ(At(9.95), "12");
  sequences_[0]->sched.follows = 1;
  EXPECT_EQ(At(9.95), "2") << "a follower waits for its leader";
}

}  // namespace
}  // namespace ropeway::scheduler
