// Turns between tenants, and starts within max_wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "policy/policies.h"
#include "scheduler/test_scheduler.h"

namespace ropeway::scheduler {
namespace {

class TenantsTest : public SchedulerTest {
 protected:
  void StartFair(int32_t blocks, SchedulingOptions options,
                 const std::string& policy = "priority+fair", bool strict = false) {
    policy_ = *policy::MakePolicy({.policy = policy, .strict_priority = strict}, caching_);
    Start(blocks, options, policy_.get());
  }

  core::Sequence* AddOf(const char* tenant, int32_t prompt, int32_t max_tokens = 100'000) {
    tenant_ = tenant;
    return Add(prompt, max_tokens);
  }

  // Returns how many steps it took until the sequence runs, at most `most` + 1.
  int StepsUntilRunning(const core::Sequence& sequence, int most) {
    for (int i = 1; i <= most; ++i) {
      Step();
      if (sequence.running()) return i;
    }
    return most + 1;
  }

  void RunSteps(int count) {
    for (int i = 0; i < count; ++i) {
      Step();
      for (const char c : preempted_) preemptions_ += c != ' ' ? 1 : 0;
    }
  }

  int RunningOf(const std::string& tenant) const {
    return static_cast<int>(std::count_if(sequences_.begin(), sequences_.end(), [&](const auto& s) {
      return s->running() && s->request.tenant == tenant;
    }));
  }

  std::unique_ptr<policy::SchedulingPolicy> policy_;
  int preemptions_ = 0;  // Of RunSteps, with fewer than ten sequences.
};

// One request with n = 64 and another key's: the attack that found it.
TEST_F(TenantsTest, ATenantThatHoldsAllSlotsGivesOneUpWithinItsQuantum) {
  for (const char* policy : {"priority+fair", "fair", "fair+priority", "fair+sjf", "sjf+fair",
                             "length-balance+fair", "cache-aware+fair"}) {
    sequences_.clear();
    now_ = base::TimePoint{0};
    StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64}, policy);
    for (int i = 0; i < 7; ++i) AddOf("a", 10);
    RunSteps(20);
    const core::Sequence* b = AddOf("b", 10);
    // Four slots, two units of service each: a quantum after 16 steps, and one to see it.
    EXPECT_LE(StepsUntilRunning(*b, 50), 17) << policy;
    EXPECT_EQ(reasons_, "fairness") << policy;
    EXPECT_EQ(preempted_, "4") << policy << ": the newest";
    EXPECT_EQ(RunningOf("a"), 3) << policy;
  }
}

// Its short prompt has a step of its own, without the decodes of the tenant that gave the slot.
TEST_F(TenantsTest, ATenantWithoutASlotGetsOneAtOnceFromOneThatKeepsAnother) {
  for (const char* policy : {"priority+fair", "fair", "fair+sjf"}) {
    sequences_.clear();
    now_ = base::TimePoint{0};
    StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64}, policy);
    for (int i = 0; i < 7; ++i) AddOf("a", 10);
    RunSteps(3);
    AddOf("b", 10);
    EXPECT_EQ(Step(), "8:0+10*") << policy;
    EXPECT_EQ(reasons_, "fairness") << policy;
    EXPECT_EQ(RunningOf("a"), 3) << policy;
    Step();
    EXPECT_EQ(NumRunning(), 4) << policy;
    // A second one waits for its tenant's turn.
    const core::Sequence* second = AddOf("b", 10);
    Step();
    EXPECT_FALSE(second->running()) << policy;
  }
}

// Where none keeps another slot it takes a quantum: 64 steps for each unit of their weight.
TEST_F(TenantsTest, ASlotOfThoseThatHoldOneIsGivenUpWithinTheBound) {
  for (const char* policy : {"priority+fair", "fair", "fair+priority", "fair+sjf", "sjf+fair",
                             "length-balance+fair", "cache-aware+fair"}) {
    for (const int weight : {1, 3}) {
      sequences_.clear();
      now_ = base::TimePoint{0};
      StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64}, policy);
      weight_ = weight;
      for (const char* tenant : {"a", "b", "c", "d"}) AddOf(tenant, 10);
      RunSteps(20);
      weight_ = 1.0;
      const core::Sequence* e = AddOf("e", 10);
      const int steps = StepsUntilRunning(*e, 300);
      EXPECT_LE(steps, kMinRunSteps + policy::kQuantumSteps * weight) << policy;
      EXPECT_GE(steps, policy::kQuantumSteps * weight) << policy << ": not sooner";
      EXPECT_EQ(reasons_, "fairness") << policy;
    }
  }
}

// However many blocks it wants: the last slot goes after a quantum alone.
TEST_F(TenantsTest, TheFirstSlotLeavesTheOtherTenantOne) {
  StartFair(12, {.max_num_seqs = 8, .max_num_batched_tokens = 200});
  AddOf("a", 70);
  AddOf("a", 70);
  Step();
  const core::Sequence* b = AddOf("b", 150);  // The blocks of both.
  for (int i = 0; i < kMinRunSteps; ++i) {
    Step();
    EXPECT_EQ(RunningOf("a"), 2) << "after " << i << " steps";
  }
  EXPECT_LE(StepsUntilRunning(*b, 20), 5) << "each holds three slots' worth of blocks";
  EXPECT_EQ(RunningOf("a"), 0);
}

// Else one that is past max_wait would start in vain.
TEST_F(TenantsTest, WhatStartsInAStepGivesNoTurnInIt) {
  max_wait_ = std::chrono::milliseconds(50);
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 64}, "fair");
  const core::Sequence* first = AddOf("a", 4);
  AddOf("a", 4)->order = 5;
  RunSteps(10);
  const core::Sequence* aged = AddOf("a", 4);
  RunSteps(5);
  EXPECT_FALSE(aged->running());
  const core::Sequence* b = AddOf("b", 4);
  Step();
  EXPECT_EQ(preempted_, "21") << "the newest for the aged one, and the other for b";
  EXPECT_EQ(reasons_, "aging fairness");
  EXPECT_FALSE(first->running());
  EXPECT_TRUE(aged->running());
  EXPECT_TRUE(b->running());
}

// Else a tenant's prompts would keep more slots than it can use for nothing.
TEST_F(TenantsTest, ASlotIsChargedWhileItsPromptWaitsForAnotherOfItsTenant) {
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 16}, "fair");
  core::Sequence* const waits = AddOf("a", 1000);
  waits->order = 5;
  EXPECT_EQ(Step(), "1:0+16");
  AddOf("a", 1000);
  EXPECT_EQ(Step(), "2:0+16") << "the earlier one";
  const int64_t before = policy_->ServiceOf(*waits);
  EXPECT_EQ(Step(), "2:16+16");
  EXPECT_EQ(policy_->ServiceOf(*waits) - before, (8 + 1) * policy::kServiceOfDecode)
      << "16 tokens of a prompt, and a slot";
}

// Else it would be charged for what the other one does, and wait the longer.
TEST_F(TenantsTest, WhoWaitsForAnotherTenantsPromptIsNotCharged) {
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 16}, "fair");
  const core::Sequence* const waits = AddOf("a", 1000);
  Step();
  weight_ = 100.0;
  AddOf("b", 1000);
  Step();
  EXPECT_EQ(Step(), "2:0+16") << "it has had less";
  const int64_t before = policy_->ServiceOf(*waits);
  EXPECT_EQ(Step(), "2:16+16");
  EXPECT_EQ(policy_->ServiceOf(*waits), before);
}

TEST_F(TenantsTest, AllOfSixtyFourSlotsAreAQuantumAfterAStep) {
  StartFair(1000, {.max_num_seqs = 64, .max_num_batched_tokens = 512});
  for (int i = 0; i < 64; ++i) AddOf("a", 4);
  RunSteps(20);
  EXPECT_LE(StepsUntilRunning(*AddOf("b", 10), 20), 2);
}

TEST_F(TenantsTest, BetweenTenantsNoneIsExempt) {
  StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64, .preempt_max_generated = 5});
  for (int i = 0; i < 4; ++i) AddOf("a", 10)->preemptions = 3 * policy::kMaxPreemptions;
  RunSteps(20);
  const core::Sequence* b = AddOf("b", 10);
  for (int i = 0; i < 17 && !b->running(); ++i) {
    for (const auto& sequence : sequences_) sequence->sched.aged = sequence->running();
    Step();
  }
  EXPECT_TRUE(b->running());
}

TEST_F(TenantsTest, NoneGivesWayBeforeItHasRunForAWhile) {
  StartFair(1000, {.max_num_seqs = 1, .max_num_batched_tokens = 100});
  AddOf("a", 2000);
  Step();
  const core::Sequence* b = AddOf("b", 10);
  EXPECT_EQ(StepsUntilRunning(*b, 50), kMinRunSteps) << "a quantum after two steps";
}

TEST_F(TenantsTest, TheBlocksOfAFullPoolAreGivenUp) {
  StartFair(12, {.max_num_seqs = 8, .max_num_batched_tokens = 200});
  AddOf("a", 80);
  AddOf("a", 80);
  Step();
  EXPECT_EQ(kv_->pool().num_free(), 0);
  const core::Sequence* b = AddOf("b", 40);
  EXPECT_EQ(StepsUntilRunning(*b, 50), 1);
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(reasons_, "fairness");
}

TEST_F(TenantsTest, NoneGivesWayInVain) {
  StartFair(12, {.max_num_seqs = 64, .max_num_batched_tokens = 200}, "priority+fair", true);
  priority_ = Priority::kHigh;
  core::Sequence* c = AddOf("c", 100);  // Seven blocks, and of a class that goes first.
  priority_ = Priority::kMedium;
  const core::Sequence* a = AddOf("a", 30);
  Step();
  const core::Sequence* b = AddOf("b", 120);  // Eight.
  RunSteps(15);
  EXPECT_GE(policy_->ServiceOf(*a) - policy_->ServiceOf(*b), policy::kServiceQuantum);
  EXPECT_EQ(preemptions_, 0);
  scheduler_->Remove(c, core::SequenceEvent::kEnd);
  Step();
  EXPECT_TRUE(b->running());
}

TEST_F(TenantsTest, TwoTenantsTakeTurnsOfAQuantumInOneSlot) {
  StartFair(1000, {.max_num_seqs = 1, .max_num_batched_tokens = 64});
  const core::Sequence* a = AddOf("a", 4);
  Step();
  const core::Sequence* b = AddOf("b", 4);
  int most = 0;
  for (int i = 0; i < 1000; ++i) {
    RunSteps(1);
    most = std::max(most, std::abs(a->generated() - b->generated()));
  }
  EXPECT_LE(most, policy::kQuantumSteps + kMinRunSteps);
  EXPECT_LE(preemptions_, 1 + 1000 / (2 * policy::kQuantumSteps));
  EXPECT_GE(preemptions_, 6);
}

TEST_F(TenantsTest, MoreTenantsThanSlotsRotate) {
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 64});
  for (const char* tenant : {"a", "b", "c", "d", "e"}) AddOf(tenant, 4);
  RunSteps(4000);
  int least = 1 << 30;
  int most = 0;
  for (const auto& sequence : sequences_) {
    least = std::min(least, sequence->generated());
    most = std::max(most, sequence->generated());
  }
  EXPECT_LE(most - least, policy::kQuantumSteps + 2 * kMinRunSteps);
  EXPECT_GT(least, 1400);
}

TEST_F(TenantsTest, WithEqualPartsNoneGivesWay) {
  StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64});
  for (int i = 0; i < 4; ++i) {
    AddOf("a", 4);
    AddOf("b", 4);
  }
  RunSteps(500);
  EXPECT_EQ(preemptions_, 0);
  EXPECT_EQ(RunningOf("a"), 2);
}

TEST_F(TenantsTest, SlotsFollowTheWeights) {
  StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64});
  for (int i = 0; i < 4; ++i) AddOf("a", 4);
  Step();
  weight_ = 3.0;
  for (int i = 0; i < 4; ++i) AddOf("b", 4);
  RunSteps(100);
  EXPECT_EQ(RunningOf("b"), 3);
  RunSteps(300);
  EXPECT_EQ(RunningOf("b"), 3) << "and none goes back";
  EXPECT_EQ(preemptions_, 3);
}

TEST_F(TenantsTest, ALeaderGivesWayToo) {
  StartFair(1000, {.max_num_seqs = 1, .max_num_batched_tokens = 20});
  tenant_ = "a";
  core::Sequence* leader = Add(300, 1000, 300);
  Step();
  Add(310, 1000, 300);
  const core::Sequence* b = AddOf("b", 10);
  EXPECT_LE(StepsUntilRunning(*b, 50), kMinRunSteps + 1);
  EXPECT_EQ(leader->state, core::SequenceState::kPreempted);
  RunSteps(400);
  EXPECT_GT(leader->generated(), 0);
}

TEST_F(TenantsTest, AClassAboveItsShareGivesWayBetweenTenants) {
  for (const bool strict : {false, true}) {
    sequences_.clear();
    now_ = base::TimePoint{0};
    StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 64}, "priority+fair", strict);
    priority_ = Priority::kHigh;
    for (int i = 0; i < 8; ++i) AddOf("a", 10);
    priority_ = Priority::kLow;
    const core::Sequence* low = AddOf("b", 10);
    const core::Sequence* own = AddOf("a", 10);
    RunSteps(250);
    EXPECT_EQ(low->generated() > 0, !strict);
    EXPECT_EQ(own->generated(), 0) << "within a tenant a lower class preempts none";
  }
}

TEST_F(TenantsTest, TheAgedOfATenantAboveItsShareDoNotPassOthers) {
  max_wait_ = std::chrono::milliseconds(100);
  StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64, .strategy = "serial"}, "fair");
  core::Sequence* first = AddOf("a", 10);
  Step();
  core::Sequence* waits = AddOf("a", 10);
  const core::Sequence* b = AddOf("b", 10);
  RunSteps(policy::kQuantumSteps + 2);
  EXPECT_TRUE(waits->sched.above_share);
  EXPECT_FALSE(waits->sched.aged);
  scheduler_->Remove(first, core::SequenceEvent::kEnd);
  Step();
  EXPECT_TRUE(b->running()) << "though it came later, and both wait for longer than max_wait";
}

TEST_F(TenantsTest, AnAgedOneTakesNoSlotFromATenantWithLessService) {
  max_wait_ = std::chrono::milliseconds(100);
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 400}, "fair");
  AddOf("a", 200);
  AddOf("a", 10);
  core::Sequence* third = AddOf("a", 10);
  Step();
  core::Sequence* b = AddOf("b", 10);
  ASSERT_LE(StepsUntilRunning(*b, 50), 11) << "max_wait and a step";
  for (int i = 0; i < 40; ++i) {
    Step();
    EXPECT_TRUE(b->running()) << "it has the least service, so it keeps its slot";
  }
  EXPECT_GT(third->generated(), 0) << "its own tenant's slots are divided";
}

// Its tenant would take it back at once.
TEST_F(TenantsTest, WhatIsDueOrAgedTakesNoLastSlotForATenantThatHasAnother) {
  max_wait_ = std::chrono::milliseconds(50);
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 64}, "fair");
  const core::Sequence* first = AddOf("a", 4);
  weight_ = 0.5;
  const core::Sequence* b = AddOf("b", 4);
  weight_ = 1.0;
  Step();
  const core::Sequence* second = AddOf("a", 4);
  for (int i = 0; i < 50; ++i) {
    Step();
    EXPECT_TRUE(b->running()) << i;
    EXPECT_GT(policy_->ServiceOf(*b), policy_->ServiceOf(*second)) << "else none takes it anyway";
  }
  EXPECT_GT(second->generated(), 0);
  EXPECT_GT(first->preemptions, 0) << "the two take turns in the slot of their own tenant";
}

// A batch is not broken up.
TEST_F(TenantsTest, ATenantsTurnIsTheNextBatch) {
  StartFair(1000, {.max_num_seqs = 4,
                   .max_num_batched_tokens = 64,
                   .strategy = "static",
                   .max_batch_size = 2,
                   .static_padding = false,
                   .static_flush = {}});
  std::vector<core::Sequence*> of_a;
  for (int i = 0; i < 4; ++i) of_a.push_back(AddOf("a", 4));
  Step();
  const core::Sequence* b = AddOf("b", 4);
  RunSteps(2 * policy::kQuantumSteps);
  EXPECT_EQ(preemptions_, 0);
  EXPECT_FALSE(b->running());
  scheduler_->Remove(of_a[0], core::SequenceEvent::kEnd);
  scheduler_->Remove(of_a[1], core::SequenceEvent::kEnd);
  Step();
  EXPECT_TRUE(b->running()) << "it comes first in it";
  EXPECT_EQ(RunningOf("a"), 1);
}

TEST_F(TenantsTest, MemoryIsTakenFromTheTenantThatHoldsTheMost) {
  StartFair(7, {.max_num_seqs = 4, .max_num_batched_tokens = 200});
  AddOf("a", 60);
  AddOf("a", 28);
  AddOf("b", 14);  // The newest, with the least to lose.
  RunSteps(3);
  EXPECT_EQ(NumRunning(), 3);
  Step();  // The block of b's next position.
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(reasons_, "memory");
}

TEST_F(TenantsTest, WithoutPrefixCachingTurnsCostAtMostHalfTheWork) {
  caching_ = false;
  StartFair(1000, {.max_num_seqs = 1, .max_num_batched_tokens = 50});
  const core::Sequence* a = AddOf("a", 400);
  RunSteps(10);
  const core::Sequence* b = AddOf("b", 400);
  const int before = a->generated() + b->generated();
  constexpr int kSteps = 1500;
  RunSteps(kSteps);
  EXPECT_GT(preemptions_, 4);
  EXPECT_GT(a->generated() + b->generated() - before, kSteps / 2 - 50);
  // b's prompt was computed since it came, a's before.
  EXPECT_LE(std::abs(a->generated() - 400 / 2 - b->generated()), 2 * policy::kQuantumSteps);
}

// Another tenant's request may come meanwhile, and waits for the end of the step.
TEST_F(TenantsTest, PromptsAloneTakeShortStepsWhereTenantsHaveNames) {
  for (const bool named : {false, true}) {
    sequences_.clear();
    now_ = base::TimePoint{0};
    step_options_.learn_cost = true;
    StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 512});
    AddOf(named ? "a" : "", 2000);
    EXPECT_EQ(Step(), "1:0+512") << "no speed is known yet";
    scheduler_->OnStep(std::chrono::milliseconds(500));
    EXPECT_EQ(Step(), named ? "1:512+102" : "1:512+512") << "a tenth of a second's 1,024 tokens";
    scheduler_->OnStep(std::chrono::seconds(2));
    EXPECT_EQ(Step(), named ? "1:614+64" : "1:1024+512") << "on a slow machine too";
  }
}

TEST_F(TenantsTest, TheDeviceSaysHowLongAStepIsAtMost) {
  step_options_.learn_cost = true;
  step_options_.device.longest_step = std::chrono::milliseconds(25);
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 4096});
  AddOf("a", 10'000);
  EXPECT_EQ(Step(), "1:0+4096");
  scheduler_->OnStep(std::chrono::milliseconds(100));
  EXPECT_EQ(Step(), "1:4096+1024");
  step_options_.device.efficient_step = 2000;
  sequences_.clear();
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 4096});
  AddOf("a", 10'000);
  Step();
  scheduler_->OnStep(std::chrono::milliseconds(100));
  EXPECT_EQ(Step(), "1:4096+2000") << "whatever that takes";
}

TEST_F(TenantsTest, TheDeviceSaysWhatADecodeCostsUntilOneRan) {
  step_options_.learn_cost = true;
  step_options_.device.decode_ratio = 8.0;
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 4096});
  AddOf("a", 10'000);
  Step();
  scheduler_->OnStep(std::chrono::seconds(1));
  LoadView view;
  scheduler_->View(&view);
  ASSERT_TRUE(view.known());
  EXPECT_NEAR(view.Seconds({.output = 100}), 8 * view.Seconds({.prompt = 100}), 1e-9);
}

TEST_F(TenantsTest, PromptsMakeStepsOfDecodesShortToo) {
  for (const Priority priority : {Priority::kMedium, Priority::kHigh}) {
    for (const bool named : {false, true}) {
      sequences_.clear();
      now_ = base::TimePoint{0};
      priority_ = Priority::kMedium;
      step_options_.learn_cost = true;
      step_options_.mixed_prefill_budget = 32;
      StartFair(1000, {.max_num_seqs = 41, .max_num_batched_tokens = 512});
      for (int i = 0; i < 40; ++i) AddOf(named ? "a" : "", 1);
      Step();
      scheduler_->OnStep(std::chrono::milliseconds(80));
      priority_ = priority;
      AddOf(named ? "a" : "", 400);
      const std::string text = Step();
      const char* chunk = named ? " 41:0+32" : " 41:0+80";
      if (priority == Priority::kHigh) chunk = named ? " 41:0+64" : " 41:0+400*";
      EXPECT_TRUE(text.ends_with(chunk)) << text;
    }
  }
}

TEST_F(TenantsTest, OneTenantIsScheduledAsBefore) {
  StartFair(1000, {.max_num_seqs = 2, .max_num_batched_tokens = 64});
  for (int i = 0; i < 6; ++i) AddOf("", 4);
  RunSteps(300);
  EXPECT_EQ(preemptions_, 0);
}

class DueTest : public TenantsTest {
 protected:
  // Runs for `most` and returns the longest time that one of those waited until it first ran.
  base::Duration LongestWait(const std::vector<core::Sequence*>& waiting, base::Duration most) {
    std::vector<base::TimePoint> since(waiting.size(), now_);
    base::Duration longest{};
    for (const base::TimePoint end = now_ + most; now_ < end;) {
      const base::TimePoint begin = now_;
      Step();
      scheduler_->OnStep(kStep);
      for (size_t i = 0; i < waiting.size(); ++i) {
        const bool waits = waiting[i]->state == core::SequenceState::kWaiting;
        if (since[i] == base::TimePoint::max() || (waits && now_ < end)) continue;
        longest = std::max(longest, begin - since[i]);
        since[i] = base::TimePoint::max();
      }
    }
    return longest;
  }
};

TEST_F(DueTest, WhatWaitsStartsWithinMaxWaitAndAStep) {
  constexpr auto kMaxWait = std::chrono::seconds(1);
  for (const char* policy : {"fcfs", "priority", "priority+fair", "sjf"}) {
    for (const int slots : {1, 2, 5}) {
      sequences_.clear();
      now_ = base::TimePoint{0};
      max_wait_ = kMaxWait;
      StartFair(1000, {.max_num_seqs = slots, .max_num_batched_tokens = 64}, policy);
      for (int i = 0; i < slots; ++i) AddOf("a", 4);
      for (int i = 0; i < 20; ++i) {
        Step();
        scheduler_->OnStep(kStep);
      }
      std::vector<core::Sequence*> waiting;
      for (int i = 0; i < 10; ++i) waiting.push_back(AddOf("a", 4));
      const base::Duration longest = LongestWait(waiting, std::chrono::seconds(3));
      EXPECT_LE(longest, kMaxWait + kStep) << policy << ", " << slots;
      EXPECT_GE(longest, kMaxWait - 20 * kStep) << "not sooner than needed";
    }
  }
}

// Half of 64 slots start four in a step: one in a step would bring the last ones two seconds late.
TEST_F(DueTest, AsManyStartInAStepAsMust) {
  constexpr base::Duration kMaxWait = std::chrono::seconds(1);
  max_wait_ = kMaxWait;
  StartFair(10'000, {.max_num_seqs = 64, .max_num_batched_tokens = 128}, "fcfs");
  for (int i = 0; i < 64; ++i) AddOf("a", 4);
  for (int i = 0; i < 20; ++i) {
    Step();
    scheduler_->OnStep(kStep);
  }
  std::vector<core::Sequence*> waiting;
  for (int i = 0; i < 300; ++i) waiting.push_back(AddOf("a", 4));
  EXPECT_LE(LongestWait(waiting, std::chrono::seconds(2)), kMaxWait + kStep);
}

// Its prompt took long to encode, so its order is an earlier one.
TEST_F(DueTest, OneThatCameLateDelaysNoneThatWaitsLonger) {
  constexpr base::Duration kMaxWait = std::chrono::seconds(1);
  max_wait_ = kMaxWait;
  StartFair(1000, {.max_num_seqs = 1, .max_num_batched_tokens = 64}, "fcfs");
  AddOf("a", 4);
  const auto step = [this] {
    Step();
    scheduler_->OnStep(kStep);
  };
  step();
  const core::Sequence* const first = AddOf("a", 4);
  const base::TimePoint came = now_;
  while (now_ - came < kMaxWait / 2) step();
  core::Sequence* const late = AddOf("a", 4);
  late->order = 0;
  while (!first->running() && now_ - came < 2 * kMaxWait) step();
  EXPECT_LE(now_ - came, kMaxWait + 2 * kStep);
  EXPECT_EQ(late->state, core::SequenceState::kWaiting);
}

TEST_F(DueTest, TheOldestHalfRunsOn) {
  max_wait_ = std::chrono::milliseconds(300);
  StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64}, "fcfs");
  std::vector<core::Sequence*> first;
  for (int i = 0; i < 4; ++i) first.push_back(AddOf("a", 4));
  Step();
  for (int i = 0; i < 60; ++i) AddOf("a", 4);
  for (int i = 0; i < 200; ++i) {
    Step();
    scheduler_->OnStep(kStep);
    EXPECT_TRUE(first[0]->running());
    EXPECT_TRUE(first[1]->running());
  }
}

TEST_F(DueTest, ATenantAboveItsShareTakesItsTurnsFromItself) {
  max_wait_ = std::chrono::seconds(1);
  StartFair(1000, {.max_num_seqs = 4, .max_num_batched_tokens = 64});
  for (int i = 0; i < 4; ++i) AddOf("a", 4);
  Step();
  std::vector<core::Sequence*> waiting;
  for (int i = 0; i < 6; ++i) waiting.push_back(AddOf("a", 4));
  std::vector<core::Sequence*> others;
  for (int i = 0; i < 2; ++i) others.push_back(AddOf("b", 4));
  const base::Duration longest = LongestWait(waiting, std::chrono::seconds(3));
  EXPECT_LE(longest, std::chrono::seconds(1) + kStep);
  EXPECT_TRUE(others[0]->running());
  EXPECT_TRUE(others[1]->running());
  EXPECT_EQ(others[0]->preemptions + others[1]->preemptions, 0);
}

}  // namespace
}  // namespace ropeway::scheduler
