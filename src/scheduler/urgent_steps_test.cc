#include "scheduler/urgent_steps.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "policy/priority_policy.h"

namespace ropeway {
namespace {

class UrgentStepsTest : public testing::Test {
 protected:
  UrgentStepsTest() {
    for (size_t i = 0; i < sequences_.size(); ++i) sequences_[i].order = i;
    decode_.state = SequenceState::kDecoding;
    decode_.priority = Priority::kLow;
    prompt_.state = SequenceState::kPrefilling;
    prompt_.priority = Priority::kHigh;
    prompt_.ids.resize(64);
    policy_.BeginStep({}, {}, TimePoint{});
    running_ = {{.sequence = &prompt_, .rank = {}}, {.sequence = &decode_, .rank = {}}};
  }

  const Sequence* Find(const Ranked* next = nullptr) {
    steps_.Find(running_, next);
    return steps_.prompt();
  }

  std::array<Sequence, 3> sequences_;
  Sequence& prompt_ = sequences_[0];
  Sequence& decode_ = sequences_[1];
  Sequence& other_ = sequences_[2];
  PriorityPolicy policy_{{70, 20, 10}, /*strict=*/true, /*kv_is_kept=*/true};
  std::vector<Ranked> running_;
  UrgentSteps steps_{&policy_, /*has_classes=*/true, /*max_chunk=*/0};
};

TEST_F(UrgentStepsTest, LowerClassesLeaveTheStep) {
  EXPECT_EQ(Find(), &prompt_);
  EXPECT_TRUE(steps_.IsLeftBy(running_[1]));
  running_[1].leads = true;
  EXPECT_FALSE(steps_.IsLeftBy(running_[1])) << "others wait for what it computes";
  running_[1].leads = false;
  running_[1].promoted = true;
  EXPECT_FALSE(steps_.IsLeftBy(running_[1])) << "it has waited its time out";
}

TEST_F(UrgentStepsTest, NobodyToLeaveIt) {
  decode_.priority = Priority::kHigh;
  EXPECT_EQ(Find(), nullptr);
}

TEST_F(UrgentStepsTest, OnlyOfClassHigh) {
  prompt_.priority = Priority::kMedium;
  EXPECT_EQ(Find(), nullptr);
  EXPECT_FALSE(steps_.IsHigh(prompt_));
  const UrgentSteps no_classes(&policy_, false, 0);
  prompt_.priority = Priority::kHigh;
  EXPECT_FALSE(no_classes.IsHigh(prompt_));
}

TEST_F(UrgentStepsTest, OnlyWhereLittleIsLeft) {
  prompt_.ids.resize(UrgentSteps::kMaxPrompt + 1);
  EXPECT_EQ(Find(), nullptr);
  prompt_.computed = 1;
  EXPECT_EQ(Find(), &prompt_);
  // A chunk is no more than the prompt's limit.
  UrgentSteps chunks(&policy_, true, 64);
  chunks.Find(running_, nullptr);
  EXPECT_EQ(chunks.prompt(), nullptr);
}

TEST_F(UrgentStepsTest, NotBeforeWhoGoesFirst) {
  const Ranked next{.sequence = &other_, .rank = {}, .promoted = true};
  EXPECT_EQ(Find(&next), nullptr);
}

TEST_F(UrgentStepsTest, AfterSomeAllDecode) {
  for (int i = 0; i < UrgentSteps::kMaxSteps; ++i) {
    ASSERT_EQ(Find(), &prompt_);
    EXPECT_FALSE(steps_.paused());
  }
  EXPECT_EQ(Find(), nullptr);
  EXPECT_TRUE(steps_.paused());
  EXPECT_EQ(Find(), &prompt_);
  EXPECT_FALSE(steps_.paused());
}

TEST_F(UrgentStepsTest, StartsFirstWhereNoOtherPrefills) {
  other_.priority = Priority::kHigh;
  other_.ids.resize(UrgentSteps::kMaxPrompt);
  Ranked first{.sequence = &other_, .rank = {}};
  EXPECT_FALSE(steps_.StartsFirst(first, running_));
  prompt_.priority = Priority::kMedium;
  EXPECT_TRUE(steps_.StartsFirst(first, running_));
  other_.ids.resize(UrgentSteps::kMaxPrompt + 10);
  EXPECT_FALSE(steps_.StartsFirst(first, running_)) << "no decode would leave it the step";
  other_.cached_hint = 10;
  EXPECT_TRUE(steps_.StartsFirst(first, running_));
  first.promoted = true;
  EXPECT_FALSE(steps_.StartsFirst(first, running_));
}

}  // namespace
}  // namespace ropeway
