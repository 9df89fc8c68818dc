#include "scheduler/prefill_budget.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "policy/policies.h"
#include "policy/priority_policy.h"

namespace ropeway::scheduler {
namespace {

constexpr PrefillBudgetOptions kOptions = {.all = 512, .mixed = 32, .long_ones = 64};

TEST(PrefillBudget, AloneAPromptGetsTheWholeStep) {
  PrefillBudget budget(kOptions);
  budget.Begin(0);
  EXPECT_EQ(budget.For(true, false), 512);
  EXPECT_EQ(budget.For(false, false), 512);
  EXPECT_EQ(budget.For(false, true), 512);
  budget.Spend(100, true);
  EXPECT_EQ(budget.For(true, false), 412);
  EXPECT_EQ(budget.For(false, true), 412);
}

TEST(PrefillBudget, TheDeviceSaysWhatCostsAStepLittle) {
  PrefillBudgetOptions options = kOptions;
  options.long_ones = 1000;
  options.spare = 200;
  options.urgent = 256;
  PrefillBudget budget(options);
  budget.Begin(4);
  EXPECT_EQ(budget.For(false, true), 32) << "within what all prompts get";
  options.mixed = 500;
  PrefillBudget large(options);
  large.Begin(4);
  EXPECT_EQ(large.For(false, true), 200);
  large.BeginUrgent(4, 10);
  EXPECT_EQ(large.For(true, false), 256);
  large.Begin(90, false, 100);
  EXPECT_EQ(large.For(true, false), 256) << "class high goes on faster";
}

TEST(PrefillBudget, AStepMayHaveALimit) {
  PrefillBudget budget(kOptions);
  budget.Begin(0, false, 100);
  EXPECT_EQ(budget.For(true, false), 100);
  EXPECT_EQ(budget.For(false, true), 100);
  budget.Begin(40, false, 100);
  EXPECT_EQ(budget.For(false, false), 60);
  EXPECT_EQ(budget.For(false, true), 60);
  EXPECT_EQ(budget.For(true, false), kOptions.urgent) << "class high goes on faster";
  budget.Begin(80, false, 100);
  EXPECT_EQ(budget.For(false, false), 32) << "prompts go on beside many decodes";
  budget.Begin(4, false, 20);
  EXPECT_EQ(budget.For(false, false), 32);
  budget.Begin(0, false, 10'000);
  EXPECT_EQ(budget.For(false, false), 512);
}

TEST(PrefillBudget, BesideDecodesOnlyClassHighGetsIt) {
  PrefillBudget budget(kOptions);
  budget.Begin(4);
  EXPECT_EQ(budget.For(true, false), 508);
  EXPECT_EQ(budget.For(false, false), 32);
  EXPECT_EQ(budget.For(false, true), 16);
  budget.Begin(24);
  EXPECT_EQ(budget.For(false, false), 48);
  EXPECT_EQ(budget.For(false, true), 48);
  budget.Spend(10, false);
  EXPECT_EQ(budget.For(false, false), 38);
  // Costly decodes leave an eighth.
  budget.Begin(10'000);
  EXPECT_EQ(budget.For(true, false), 64);
  EXPECT_EQ(budget.For(false, false), 64);
}

TEST(PrefillBudget, WithoutAMixedBudgetAllGetTheSame) {
  PrefillBudgetOptions options = kOptions;
  options.mixed = 0;
  PrefillBudget budget(options);
  budget.Begin(12);
  EXPECT_EQ(budget.For(false, false), 500);
  EXPECT_EQ(budget.For(false, true), 24);
}

TEST(PrefillBudget, AfterUrgentStepsAllAreLimited) {
  PrefillBudget budget(kOptions);
  budget.Begin(20, /*after_urgent=*/true);
  EXPECT_EQ(budget.For(true, false), kOptions.urgent);
  EXPECT_EQ(budget.For(false, false), 40);
  budget.Begin(50, /*after_urgent=*/true);
  EXPECT_EQ(budget.For(true, false), 100);
}

TEST(PrefillBudget, AnUrgentStepBelongsToTheFirstPrompt) {
  PrefillBudget budget(kOptions);
  budget.BeginUrgent(4, 100);
  EXPECT_EQ(budget.For(true, false), 100);
  EXPECT_EQ(budget.For(false, false), 0);
  EXPECT_EQ(budget.For(false, true), 0);
  EXPECT_EQ(budget.For(true, true), 100) << "the rest of a long one";
  // Small ones share it.
  budget.BeginUrgent(4, 20);
  budget.Spend(20, false);
  EXPECT_EQ(budget.For(true, false), kOptions.urgent - 20);
}

class UrgentStepsTest : public testing::Test {
 protected:
  UrgentStepsTest() {
    for (size_t i = 0; i < sequences_.size(); ++i) sequences_[i].order = i;
    decode_.state = core::SequenceState::kDecoding;
    decode_.request.priority = Priority::kLow;
    prompt_.state = core::SequenceState::kPrefilling;
    prompt_.request.priority = Priority::kHigh;
    prompt_.length = 64;
    policy_.BeginStep({}, {}, base::TimePoint{});
    running_ = {Of(&prompt_), Of(&decode_)};
  }

  static Ranked Of(core::Sequence* sequence, bool aged = false) {
    return {{.rank = {}, .order = sequence->order, .aged = aged}, sequence};
  }

  const core::Sequence* Choose(const Ranked* next = nullptr) {
    steps_.Choose(running_, next);
    return steps_.owner();
  }

  std::array<core::Sequence, 3> sequences_;
  core::Sequence& prompt_ = sequences_[0];
  core::Sequence& decode_ = sequences_[1];
  core::Sequence& other_ = sequences_[2];
  policy::PriorityPolicy policy_{{70, 20, 10}, /*strict=*/true, /*kv_is_kept=*/true};
  std::vector<Ranked> running_;
  UrgentSteps steps_{&policy_, /*max_chunk=*/0};
};

TEST_F(UrgentStepsTest, LowerClassesLeaveTheStep) {
  EXPECT_EQ(Choose(), &prompt_);
  EXPECT_TRUE(steps_.IsLeftBy(running_[1]));
  running_[1].leads = true;
  EXPECT_FALSE(steps_.IsLeftBy(running_[1])) << "others wait for what it computes";
  running_[1].leads = false;
  running_[1].aged = true;
  EXPECT_FALSE(steps_.IsLeftBy(running_[1])) << "it is past max_wait";
}

TEST_F(UrgentStepsTest, NotWithoutALowerDecode) {
  decode_.request.priority = Priority::kHigh;
  EXPECT_EQ(Choose(), nullptr);
}

TEST_F(UrgentStepsTest, OnlyOfClassHigh) {
  prompt_.request.priority = Priority::kMedium;
  EXPECT_EQ(Choose(), nullptr);
  EXPECT_FALSE(steps_.GoesFirst(prompt_));
  const policy::FcfsPolicy fcfs;
  const UrgentSteps no_classes(&fcfs, 0);
  prompt_.request.priority = Priority::kHigh;
  EXPECT_FALSE(no_classes.GoesFirst(prompt_));
}

TEST_F(UrgentStepsTest, OnlyWhereLittleIsLeft) {
  prompt_.length = steps_.most() + 1;
  EXPECT_EQ(Choose(), nullptr);
  prompt_.computed = 1;
  EXPECT_EQ(Choose(), &prompt_);
  UrgentSteps long_ones(&policy_, 0, /*most=*/512);
  prompt_.length = 512;
  prompt_.computed = 0;
  long_ones.Choose(running_, nullptr);
  EXPECT_EQ(long_ones.owner(), &prompt_);
  prompt_.length = 513;
  long_ones.Choose(running_, nullptr);
  EXPECT_EQ(long_ones.owner(), nullptr);
  // The limit is at most a chunk.
  prompt_.length = steps_.most();
  UrgentSteps chunks(&policy_, 64);
  chunks.Choose(running_, nullptr);
  EXPECT_EQ(chunks.owner(), nullptr);
}

TEST_F(UrgentStepsTest, NotBeforeAnEarlierOneOfTheQueue) {
  const Ranked next = Of(&other_, true);
  EXPECT_EQ(Choose(&next), nullptr);
}

TEST_F(UrgentStepsTest, AfterFourUrgentStepsAllDecode) {
  for (int i = 0; i < UrgentSteps::kMaxSteps; ++i) {
    ASSERT_EQ(Choose(), &prompt_);
    EXPECT_FALSE(steps_.paused());
  }
  EXPECT_EQ(Choose(), nullptr);
  EXPECT_TRUE(steps_.paused());
  EXPECT_EQ(Choose(), &prompt_);
  EXPECT_FALSE(steps_.paused());
}

TEST_F(UrgentStepsTest, StartsFirstWhereNoOtherPrefills) {
  other_.request.priority = Priority::kHigh;
  other_.length = steps_.most();
  Ranked first = Of(&other_);
  EXPECT_FALSE(steps_.StartsFirst(first, running_));
  prompt_.request.priority = Priority::kMedium;
  EXPECT_TRUE(steps_.StartsFirst(first, running_));
  other_.length = steps_.most() + 10;
  EXPECT_FALSE(steps_.StartsFirst(first, running_)) << "no decode would leave it the step";
  other_.sched.cached_hint = 10;
  EXPECT_TRUE(steps_.StartsFirst(first, running_));
  first.aged = true;
  EXPECT_FALSE(steps_.StartsFirst(first, running_));
}

}  // namespace
}  // namespace ropeway::scheduler
