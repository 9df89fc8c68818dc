// Classes, aging, batches and the step's budget.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "policy/policies.h"
#include "scheduler/test_scheduler.h"

namespace ropeway::scheduler {
namespace {

class ClassesTest : public SchedulerTest {
 protected:
  void StartWith(const std::string& policy, int32_t blocks, SchedulingOptions options,
                 bool strict = false) {
    policy_ = *policy::MakePolicy({.policy = policy, .strict_priority = strict}, caching_);
    Start(blocks, options, policy_.get());
  }

  core::Sequence* Add(Priority priority, int32_t prompt, int32_t max_tokens = 1000) {
    priority_ = priority;
    return SchedulerTest::Add(prompt, max_tokens);
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) Step();
  }

  std::unique_ptr<policy::SchedulingPolicy> policy_;
};

constexpr auto kHigh = Priority::kHigh;
constexpr auto kMedium = Priority::kMedium;
constexpr auto kLow = Priority::kLow;

TEST_F(ClassesTest, AHigherClassTakesASlotOnceTheLowerOneHasRunForAWhile) {
  StartWith("priority", 100, {.max_num_seqs = 2, .max_num_batched_tokens = 64});
  core::Sequence* first = Add(kLow, 10);
  Add(kLow, 10);
  EXPECT_EQ(Step(), "1:0+10* 2:0+10*");
  Add(kHigh, 5);
  for (int i = 1; i < kMinRunSteps; ++i) {
    Step();
    EXPECT_EQ(preempted_, "");
    EXPECT_EQ(head_, "3: max_num_seqs");
  }
  EXPECT_EQ(Step(), "3:0+5*") << "of equal ones the newest is preempted, and 3 starts at once";
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(reasons_, "priority");
  core::Sequence* second = sequences_[1].get();
  EXPECT_EQ(second->kv.parked, 17);
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "3:5+1* 2:17+1*") << "it goes on where it was: nothing is computed again";
}

TEST_F(ClassesTest, EqualAndLowerClassesPreemptNone) {
  StartWith("priority", 100, {.max_num_seqs = 1, .max_num_batched_tokens = 64});
  Add(kMedium, 10);
  Steps(20);
  Add(kMedium, 5);
  Add(kLow, 5);
  Steps(20);
  EXPECT_EQ(NumPreempted(), 0);
  EXPECT_EQ(head_, "2: max_num_seqs");
}

TEST_F(ClassesTest, AHigherClassTakesBlocks) {
  StartWith("priority", 8, {.max_num_seqs = 4, .max_num_batched_tokens = 200});
  Add(kLow, 60);
  Add(kLow, 20);
  Steps(1 + kMinRunSteps);
  Add(kHigh, 40);  // Three blocks; two are free.
  Step();
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(reasons_, "blocks");
  EXPECT_EQ(sequences_[2]->state, core::SequenceState::kDecoding);
}

TEST_F(ClassesTest, NoneIsPreemptedInVain) {
  StartWith("priority", 8, {.max_num_seqs = 4, .max_num_batched_tokens = 200});
  Add(kHigh, 60);  // Four blocks, soon five, and not to be had.
  Add(kLow, 20);
  Steps(1 + kMinRunSteps);
  Add(kHigh, 70);
  Steps(3);
  EXPECT_EQ(NumPreempted(), 0);
  EXPECT_EQ(head_, "3: free KV blocks");
}

TEST_F(ClassesTest, ALongPrefillGivesItsTokensToAHigherClass) {
  StartWith("priority", 100, {.max_num_seqs = 4, .max_num_batched_tokens = 50});
  Add(kLow, 500);
  EXPECT_EQ(Step(), "1:0+50");
  Add(kHigh, 30);
  EXPECT_EQ(Step(), "2:0+30* 1:50+20");
}

TEST_F(ClassesTest, LowerDecodesLeaveTheStepToAnUrgentPrompt) {
  StartWith("priority", 100, {.max_num_seqs = 16, .max_num_batched_tokens = 512});
  Add(kLow, 10);
  Add(kHigh, 10);
  Add(kMedium, 10);
  Steps(2);
  Add(kHigh, 100);
  EXPECT_EQ(Step(), "2:11+1* 4:0+100*") << "not those of its own class";
  EXPECT_EQ(Step(), "2:12+1* 4:100+1* 3:11+1* 1:11+1*");
  for (int i = 0; i < 5; ++i) Add(kHigh, 70);
  EXPECT_EQ(Step(), "2:13+1* 4:101+1* 5:0+70*") << "one after the other";
  EXPECT_EQ(Step(), "2:14+1* 4:102+1* 5:70+1* 6:0+70*");
  Steps(2);
  EXPECT_EQ(Step(), "2:17+1* 4:105+1* 5:73+1* 6:72+1* 7:71+1* 8:70+1* 3:12+1* 1:12+1* 9:0+64")
      << "not longer than four steps";
}

TEST_F(ClassesTest, TheRestOfALongPromptIsUrgentToo) {
  StartWith("priority", 100,
            {.max_num_seqs = 4, .max_num_batched_tokens = 512, .long_prefill_threshold = 200});
  Add(kHigh, 10);
  Add(kLow, 10);
  Steps(2);
  core::Sequence* prompt = Add(kHigh, 260);
  while (260 - prompt->computed > 128) Step();
  const int32_t low = sequences_[1]->computed;
  Step();
  EXPECT_EQ(prompt->computed, 260) << "not a token a step";
  EXPECT_EQ(sequences_[1]->computed, low);
}

TEST_F(ClassesTest, AnUrgentPromptDoesNotPassAnAgedOne) {
  max_wait_ = std::chrono::milliseconds(30);
  StartWith("priority", 100, {.max_num_seqs = 2, .max_num_batched_tokens = 64});
  core::Sequence* first = Add(kHigh, 10);
  core::Sequence* second = Add(kHigh, 10);
  core::Sequence* low = Add(kLow, 10);
  Steps(25);
  scheduler_->Remove(second, core::SequenceEvent::kEnd);
  Add(kMedium, 10);
  Steps(5);
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  Add(kHigh, 10);
  Step();
  EXPECT_TRUE(low->running()) << "a slot is free, and the high one preempts none";
}

TEST_F(ClassesTest, DecodesDoNotLeaveTheStepToALongPrompt) {
  StartWith("priority", 100, {.max_num_seqs = 8, .max_num_batched_tokens = 512});
  Add(kLow, 10);
  Steps(2);
  Add(kHigh, 200);
  EXPECT_EQ(Step(), "1:11+1* 2:0+200*");
}

TEST_F(ClassesTest, AgedDecodesDoNotLeaveTheStep) {
  max_wait_ = std::chrono::milliseconds(30);
  StartWith("priority", 100, {.max_num_seqs = 2, .max_num_batched_tokens = 64});
  core::Sequence* first = Add(kMedium, 10);
  Add(kMedium, 10);
  core::Sequence* low = Add(kLow, 10);
  Steps(31);
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  Step();
  ASSERT_TRUE(low->sched.aged);
  scheduler_->Remove(sequences_[1].get(), core::SequenceEvent::kEnd);
  Add(kHigh, 20);
  EXPECT_EQ(Step(), "3:18+1* 4:0+20*") << "it ran for eight steps before, when it was due";
}

TEST_F(ClassesTest, AClassAboveItsShareWaitsItsTurn) {
  StartWith("priority", 1000, {.max_num_seqs = 2, .max_num_batched_tokens = 64});
  // More than the 70 % of high, while low always waits.
  for (int i = 0; i < 40; ++i) Add(kHigh, 10, 40);
  for (int i = 0; i < 40; ++i) Add(kLow, 10, 40);
  bool low_ran = false;
  for (int step = 0; step < 400 && !low_ran; ++step) {
    Step();
    for (const auto& sequence : sequences_) {
      if (sequence->state == core::SequenceState::kFinished || sequence->generated() < 40) continue;
      scheduler_->Remove(sequence.get(), core::SequenceEvent::kEnd);
    }
    for (const auto& sequence : sequences_) {
      low_ran = low_ran || (sequence->request.priority == kLow && sequence->generated() > 0);
    }
  }
  EXPECT_TRUE(low_ran) << "a tenth of the work is its own";
}

TEST_F(ClassesTest, StrictKnowsNoShares) {
  StartWith("priority", 1000, {.max_num_seqs = 2, .max_num_batched_tokens = 64}, true);
  for (int i = 0; i < 30; ++i) Add(kHigh, 10, 20);
  Add(kLow, 10, 20);
  for (int step = 0; step < 250; ++step) {
    Step();
    for (const auto& sequence : sequences_) {
      if (sequence->state == core::SequenceState::kFinished || sequence->generated() < 20) continue;
      scheduler_->Remove(sequence.get(), core::SequenceEvent::kEnd);
    }
  }
  EXPECT_EQ(sequences_.back()->generated(), 0);
}

TEST_F(ClassesTest, AnAgedOneGoesFirstAndRunsForAWhile) {
  max_wait_ = std::chrono::milliseconds(300);
  StartWith("priority", 1000, {.max_num_seqs = 2, .max_num_batched_tokens = 64}, true);
  Add(kHigh, 10);
  Add(kHigh, 10);
  Step();
  core::Sequence* low = Add(kLow, 10);
  Add(kHigh, 10);  // Came later than the low one.
  core::Sequence* later = Add(kHigh, 10);
  Steps(28);
  EXPECT_EQ(low->state, core::SequenceState::kWaiting) << "all running ones came earlier";
  scheduler_->Remove(sequences_[0].get(), core::SequenceEvent::kEnd);
  Step();
  EXPECT_EQ(sequences_[3]->generated(), 1) << "not its time yet";
  Steps(2);
  EXPECT_EQ(low->generated(), 0) << "the later one must run its least";
  Steps(kMinRunSteps);
  EXPECT_GT(low->generated(), 0);
  EXPECT_EQ(sequences_[3]->state, core::SequenceState::kPreempted);
  EXPECT_EQ(later->generated(), 0);
  EXPECT_TRUE(low->sched.aged || low->sched.run_steps >= kMinRunSteps);
}

TEST_F(ClassesTest, AgedOnesTakeHalfTheSlots) {
  max_wait_ = std::chrono::milliseconds(100);
  StartWith("priority", 1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64}, true);
  for (int i = 0; i < 4; ++i) Add(kLow, 4);
  Add(kMedium, 4);
  for (int i = 0; i < 6; ++i) Add(kLow, 4);
  Step();  // All slots are taken, by the medium one and three low ones.
  EXPECT_EQ(NumRunning(), 4);
  now_ += std::chrono::seconds(1);
  for (int i = 0; i < 6; ++i) Add(kHigh, 4);
  for (const auto& sequence : sequences_) {
    if (sequence->running()) scheduler_->Remove(sequence.get(), core::SequenceEvent::kEnd);
  }
  Step();
  int low = 0;
  int high = 0;
  for (const auto& sequence : sequences_) {
    if (!sequence->running()) continue;
    ++(sequence->request.priority == kHigh ? high : low);
  }
  EXPECT_EQ(low, 2);
  EXPECT_EQ(high, 2);
}

TEST_F(ClassesTest, TheOftenPreemptedArePreemptedNoMore) {
  StartWith("priority", 1000, {.max_num_seqs = 1, .max_num_batched_tokens = 64}, true);
  core::Sequence* low = Add(kLow, 4);
  int times = 0;
  for (int round = 0; round < 2 * policy::kMaxPreemptions; ++round) {
    Steps(1 + kMinRunSteps);
    core::Sequence* high = Add(kHigh, 4);
    Step();
    if (!high->running()) break;
    ++times;
    scheduler_->Remove(high, core::SequenceEvent::kEnd);
  }
  EXPECT_EQ(times, policy::kMaxPreemptions);
  EXPECT_EQ(low->preemptions, policy::kMaxPreemptions);
}

TEST_F(ClassesTest, WithoutCachingALongOutputIsNotPreempted) {
  caching_ = false;
  StartWith("priority", 1000,
            {.max_num_seqs = 1, .max_num_batched_tokens = 64, .preempt_max_generated = 20}, true);
  Add(kLow, 4);
  Steps(21);
  Add(kHigh, 4);
  Steps(5);
  EXPECT_EQ(preempted_, "");
  EXPECT_EQ(NumPreempted(), 0);
}

TEST_F(ClassesTest, ALeaderOfAHigherClassIsNoVictim) {
  StartWith("priority", 1000,
            {.max_num_seqs = 1, .max_num_batched_tokens = 20, .max_prefill_chunk = 10}, true);
  priority_ = kLow;
  SchedulerTest::Add(300, 1000, 300);
  Steps(1 + kMinRunSteps);
  priority_ = kMedium;
  SchedulerTest::Add(310, 1000, 300);  // Follows the low one.
  Step();
  Add(kHigh, 5);
  Steps(3);
  EXPECT_EQ(NumPreempted(), 0) << "a leader is not preempted";
}

TEST_F(ClassesTest, LongPromptsShareALittleOfEachStepWhileOthersDecode) {
  StartWith("fcfs", 1000,
            {.max_num_seqs = 4,
             .max_num_batched_tokens = 100,
             .long_prefill_threshold = 50,
             .long_prefill_budget = 8});
  Add(kMedium, 60);
  EXPECT_EQ(Step(), "1:0+60*") << "no sequence decodes yet";
  Add(kMedium, 500);
  Add(kMedium, 500);
  EXPECT_EQ(Step(), "1:60+1* 2:0+8");
  Add(kMedium, 20);
  EXPECT_EQ(Step(), "1:61+1* 2:8+8 4:0+20*") << "a short one is not held up";
}

TEST_F(ClassesTest, AChunkShrinksAsTheContextGrows) {
  step_options_.attention_weight = 0.01;
  StartWith("fcfs", 1000, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  core::Sequence* sequence = Add(kMedium, 5000);
  int32_t last = 101;
  for (int i = 0; i < 10; ++i) {
    const int32_t before = sequence->computed;
    Step();
    EXPECT_LT(sequence->computed - before, last);
    EXPECT_GT(sequence->computed, before);
    last = sequence->computed - before;
  }
}

TEST_F(ClassesTest, SequencesKnowTheirBatch) {
  StartWith("fcfs", 1000, {.max_num_seqs = 4, .max_num_batched_tokens = 100});
  Add(kMedium, 5);
  Add(kMedium, 5);
  Step();
  Add(kMedium, 5);
  Step();
  EXPECT_EQ(sequences_[0]->sched.batch.number, 1U);
  EXPECT_EQ(sequences_[1]->sched.batch.size, 2);
  EXPECT_EQ(sequences_[2]->sched.batch.number, 2U);
  EXPECT_EQ(sequences_[2]->sched.batch.size, 3);
}

TEST_F(ClassesTest, PositionsFollowTheOrder) {
  StartWith("priority", 1000, {.max_num_seqs = 1, .max_num_batched_tokens = 100});
  Add(kHigh, 5);
  Step();
  core::Sequence* low = Add(kLow, 5);
  core::Sequence* medium = Add(kMedium, 5);
  Step();
  EXPECT_EQ(scheduler_->PositionOf(*medium), 0);
  EXPECT_EQ(scheduler_->PositionOf(*low), 1);
  EXPECT_EQ(scheduler_->QueueOrder(), (std::vector<uint64_t>{3, 2}));
}

class BatchesTest : public ClassesTest {
 protected:
  void StartBatches(const char* strategy, int size, std::chrono::milliseconds timeout,
                    bool padding = false) {
    StartWith("priority", 1000,
              {.max_num_seqs = 8,
               .max_num_batched_tokens = 40,
               .strategy = strategy,
               .max_batch_size = size,
               .static_padding = padding,
               .static_flush = timeout,
               .batch_timeout = timeout,
               .urgent_joins = urgent_joins_});
  }

  bool urgent_joins_ = false;  // Of the next StartBatches.
};

TEST_F(BatchesTest, SerialRunsOneAtATime) {
  StartBatches("serial", 1, {});
  core::Sequence* first = Add(kMedium, 5);
  Add(kHigh, 5);
  EXPECT_EQ(Step(), "2:0+5*");
  EXPECT_EQ(head_, "1: the current batch");
  Steps(20);
  EXPECT_EQ(first->state, core::SequenceState::kWaiting);
  scheduler_->Remove(sequences_[1].get(), core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "1:0+5*");
  EXPECT_EQ(first->sched.batch.number, 2U);
}

TEST_F(BatchesTest, ABatchStartsAsAWholeAndEndsAsAWhole) {
  StartBatches("static", 3, std::chrono::seconds(5));
  Add(kMedium, 20);
  Add(kMedium, 30);
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(head_, "1: the current batch");
  EXPECT_EQ(next_look_, base::TimePoint(std::chrono::seconds(5)));
  Add(kMedium, 20);
  Add(kMedium, 20);
  EXPECT_EQ(Step(), "1:0+20* 2:0+20") << "all three have a slot, not all get tokens at once";
  EXPECT_EQ(NumRunning(), 3);
  EXPECT_EQ(sequences_[2]->sched.batch.size, 3);
  Steps(5);
  scheduler_->Remove(sequences_[0].get(), core::SequenceEvent::kEnd);
  scheduler_->Remove(sequences_[1].get(), core::SequenceEvent::kEnd);
  Step();
  EXPECT_EQ(sequences_[3]->state, core::SequenceState::kWaiting);
  scheduler_->Remove(sequences_[2].get(), core::SequenceEvent::kEnd);
  scheduler_->set_flush(true);
  EXPECT_EQ(Step(), "4:0+20*") << "nothing more will come";
  EXPECT_EQ(sequences_[3]->sched.batch.number, 2U);
}

TEST_F(BatchesTest, ATimeoutBeginsABatchAndItsTimeIsTold) {
  StartBatches("dynamic", 8, std::chrono::milliseconds(50));
  Add(kMedium, 5);
  EXPECT_EQ(Step(), "");
  now_ = next_look_;
  EXPECT_EQ(Step(), "1:0+5*");
  EXPECT_EQ(sequences_[0]->sched.batch.formation, std::chrono::milliseconds(50));
  EXPECT_EQ(sequences_[0]->sched.batch.size, 1);
}

TEST_F(BatchesTest, AnUrgentOneFlushesTheBatch) {
  StartBatches("static", 8, std::chrono::seconds(5));
  Add(kLow, 5);
  EXPECT_EQ(Step(), "");
  Add(kHigh, 6);
  EXPECT_EQ(Step(), "2:0+6* 1:0+5*");
}

TEST_F(BatchesTest, AnUrgentOneJoinsARunningBatchOnlyWithTheOption) {
  for (const char* strategy : {"serial", "static", "dynamic"}) {
    for (const bool joins : {false, true}) {
      sequences_.clear();
      now_ = base::TimePoint{0};
      urgent_joins_ = joins;
      StartBatches(strategy, 1, {});
      core::Sequence* first = Add(kLow, 5);
      EXPECT_EQ(Step(), "1:0+5*");
      Add(kMedium, 5);
      core::Sequence* high = Add(kHigh, 6);
      if (!joins) {
        EXPECT_EQ(Step(), "1:5+1*");
        EXPECT_EQ(head_, "3: the current batch");
        scheduler_->Remove(first, core::SequenceEvent::kEnd);
        EXPECT_EQ(Step(), "3:0+6*");
        continue;
      }
      EXPECT_EQ(Step(), "1:5+1* 3:0+6*") << "at once, in the next step";
      EXPECT_EQ(head_, "2: the current batch");
      EXPECT_EQ(high->sched.batch.number, 2U) << "a batch of its own";
      EXPECT_EQ(high->sched.batch.size, 1);
      EXPECT_EQ(high->sched.batch.formation, base::Duration{});
      scheduler_->Remove(first, core::SequenceEvent::kEnd);
      EXPECT_EQ(Step(), "3:6+1* 2:0+5*") << "the next batch does not wait for it";
      EXPECT_EQ(sequences_[1]->sched.batch.number, 3U);
    }
  }
}

TEST_F(BatchesTest, UrgentOnesJoinInHalfTheSlots) {
  urgent_joins_ = true;
  StartBatches("static", 2, {});
  Add(kLow, 2);
  Add(kLow, 2);
  Step();
  for (int i = 0; i < 6; ++i) Add(kHigh, 2);
  Step();
  EXPECT_EQ(NumRunning(), 6) << "four of the eight slots are for urgent ones";
  Steps(5);
  EXPECT_EQ(NumRunning(), 6);
  scheduler_->Remove(sequences_[2].get(), core::SequenceEvent::kEnd);
  Step();
  EXPECT_TRUE(sequences_[6]->running());
}

TEST_F(BatchesTest, UrgentOnesDoNotPassAnAgedOneForEver) {
  urgent_joins_ = true;
  max_wait_ = std::chrono::milliseconds(50);
  StartBatches("static", 6, std::chrono::milliseconds(1));
  Add(kLow, 2);
  Step();
  now_ += std::chrono::milliseconds(1);
  Step();
  ASSERT_TRUE(sequences_[0]->running());
  core::Sequence* aged = Add(kLow, 2);
  Steps(10);
  for (int i = 0; i < 5; ++i) Add(kHigh, 2);
  Step();
  EXPECT_EQ(NumRunning(), 5) << "four later ones may run beside it";
  scheduler_->Remove(sequences_[0].get(), core::SequenceEvent::kEnd);
  Step();
  EXPECT_TRUE(aged->running()) << "the next batch begins, with the aged one first";
  EXPECT_EQ(aged->sched.batch.number, 3U);
}

TEST_F(BatchesTest, AnUrgentOneThatJoinsAPaddedBatchIsNotPadded) {
  urgent_joins_ = true;
  StartBatches("static", 2, std::chrono::seconds(5), true);
  Add(kMedium, 10);
  Add(kMedium, 10);
  EXPECT_EQ(Step(), "1:0+10* 2:0+10*");
  Add(kHigh, 30);
  EXPECT_EQ(Step(), "1:10+1* 2:10+1* 3:0+30*");
  scheduler_->Remove(sequences_[0].get(), core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "3:30+1* 2:11+1*");
  EXPECT_EQ(padding_, "11+1*") << "one row, for the ended member, at its batch's position";
  scheduler_->Remove(sequences_[1].get(), core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "3:31+1*");
  EXPECT_EQ(padding_, "") << "the batch has ended";
}

TEST_F(BatchesTest, AnUrgentOneGoesOnWhenItsBatchEndsBeforeItsPaddingDoes) {
  urgent_joins_ = true;
  StartBatches("static", 2, std::chrono::seconds(5), true);
  core::Sequence* first = Add(kMedium, 10);
  core::Sequence* second = Add(kMedium, 30);
  EXPECT_EQ(Step(), "1:0+10* 2:0+30*");
  Add(kHigh, 38);
  EXPECT_EQ(Step(), "3:0+38*");
  EXPECT_EQ(padding_, "10+2") << "18 rows are left";
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  scheduler_->Remove(second, core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "3:38+1*");
  EXPECT_EQ(padding_, "");
}

TEST_F(BatchesTest, ALongUrgentPromptThatJoinsAPaddedBatchHoldsUpNoMember) {
  urgent_joins_ = true;
  StartBatches("static", 2, std::chrono::seconds(5), true);
  Add(kMedium, 10);
  Add(kMedium, 10);
  EXPECT_EQ(Step(), "1:0+10* 2:0+10*");
  Add(kHigh, 60);
  EXPECT_EQ(Step(), "1:10+1* 2:10+1* 3:0+38");
  EXPECT_EQ(Step(), "1:11+1* 2:11+1* 3:38+22*") << "and its prompt goes on";
}

TEST_F(BatchesTest, PaddedRowsKeepTheirCost) {
  StartBatches("static", 2, std::chrono::seconds(5), true);
  Add(kMedium, 10);
  Add(kMedium, 30);
  EXPECT_EQ(Step(), "1:0+10* 2:0+30*");
  EXPECT_EQ(padding_, "") << "no row is left";
  EXPECT_EQ(Step(), "") << "the shorter prompt is filled up first";
  EXPECT_EQ(padding_, "10+20");
  EXPECT_EQ(Step(), "1:10+1* 2:30+1*");
  EXPECT_EQ(padding_, "");
  scheduler_->Remove(sequences_[0].get(), core::SequenceEvent::kEnd);
  EXPECT_EQ(Step(), "2:31+1*");
  EXPECT_EQ(padding_, "31+1*") << "its row goes on at the longest one's position";
}

TEST_F(BatchesTest, AMemberPreemptedForMemoryReturnsToItsBatch) {
  StartWith("fcfs", 4,
            {.max_num_seqs = 8,
             .max_num_batched_tokens = 40,
             .strategy = "static",
             .max_batch_size = 2,
             .static_padding = false});
  Add(kMedium, 16, 40);
  Add(kMedium, 16, 40);
  Add(kMedium, 5);
  Steps(18);
  EXPECT_EQ(NumPreempted(), 1);
  EXPECT_EQ(sequences_[2]->state, core::SequenceState::kWaiting);
  scheduler_->Remove(sequences_[0].get(), core::SequenceEvent::kEnd);
  Step();
  EXPECT_TRUE(sequences_[1]->running());
  EXPECT_EQ(sequences_[2]->state, core::SequenceState::kWaiting);
}

}  // namespace
}  // namespace ropeway::scheduler
