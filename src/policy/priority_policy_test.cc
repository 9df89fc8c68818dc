#include "policy/priority_policy.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "policy/preemption_limits.h"
#include "policy/test_sequences.h"

namespace ropeway {
namespace {

constexpr std::array<int, 3> kShares = {70, 20, 10};

Sequence Running(Priority priority, uint64_t order, int32_t prompt_len = 16,
                 int32_t generated = 1) {
  Sequence sequence = RunningSequence(order, prompt_len, 1000, generated);
  sequence.priority = priority;
  return sequence;
}

Sequence Waiting(Priority priority, uint64_t order) {
  Sequence sequence = WaitingSequence(order);
  sequence.priority = priority;
  return sequence;
}

TEST(PriorityPolicyTest, ClassesGoInOrderUntilOneIsAboveItsShare) {
  PriorityPolicy policy(kShares, false, true);
  Sequence high = Running(Priority::kHigh, 0);
  Sequence next_high = Waiting(Priority::kHigh, 1);
  Sequence medium = Waiting(Priority::kMedium, 2);
  Sequence low = Running(Priority::kLow, 3);
  std::vector<Sequence*> queue = {&next_high, &medium};
  std::vector<Sequence*> running = {&low, &high};
  policy.BeginStep(queue, running, {});
  EXPECT_LT(policy.RankOf(high), policy.RankOf(medium));
  EXPECT_LT(policy.RankOf(medium), policy.RankOf(low));
  EXPECT_EQ(policy.RankOf(high), policy.RankOf(next_high)) << "within a class: by arrival";
  EXPECT_TRUE(policy.MayPreempt(next_high, low));
  for (int i = 0; i < 100; ++i) {
    policy.BeginStep(queue, running, {});
    policy.OnScheduled(high, {.prompt_tokens = 0, .output_tokens = 1, .cost = 100.0});
  }
  const Rank before = policy.RankOf(high);
  policy.OnScheduled(low, {.prompt_tokens = 0, .output_tokens = 1, .cost = 100.0});
  EXPECT_EQ(policy.RankOf(high), before) << "the order holds for a step";
  policy.BeginStep(queue, running, {});
  EXPECT_LT(policy.RankOf(medium), policy.RankOf(next_high));
  EXPECT_FALSE(policy.MayPreempt(next_high, low)) << "it is above its share";
  EXPECT_TRUE(policy.MayPreempt(medium, low));
}

TEST(PriorityPolicyTest, PromotedWorkIsOnNobodysAccount) {
  PriorityPolicy policy(kShares, false, true);
  Sequence high = Running(Priority::kHigh, 0);
  high.promoted = true;
  Sequence waits = Waiting(Priority::kHigh, 1);
  Sequence low = Waiting(Priority::kLow, 2);
  std::vector<Sequence*> queue = {&waits, &low};
  std::vector<Sequence*> running = {&high};
  for (int i = 0; i < 200; ++i) {
    policy.BeginStep(queue, running, {});
    policy.OnScheduled(high, {.prompt_tokens = 0, .output_tokens = 1, .cost = 100.0});
  }
  policy.BeginStep(queue, running, {});
  EXPECT_EQ(policy.shares().deficit(Priority::kHigh), 0.0);
  EXPECT_LT(policy.RankOf(waits), policy.RankOf(low));
  // Nor does a promoted one make its class one that wants more.
  waits.promoted = true;
  policy.BeginStep(queue, running, {});
  policy.OnScheduled(low, {.prompt_tokens = 16, .output_tokens = 1, .cost = 100.0});
  policy.BeginStep(queue, running, {});
  EXPECT_EQ(policy.shares().deficit(Priority::kHigh), 0.0);
}

TEST(PriorityPolicyTest, AClassThatPrefillsWantsMore) {
  PriorityPolicy policy(kShares, false, true);
  Sequence high = Running(Priority::kHigh, 0);
  Sequence low = Waiting(Priority::kLow, 1);
  std::vector<Sequence*> queue = {&low};
  std::vector<Sequence*> running = {&high};
  for (const auto& [state, held_off] :
       {std::pair(SequenceState::kDecoding, false), std::pair(SequenceState::kPrefilling, true)}) {
    high.state = state;
    for (int i = 0; i < 3; ++i) {
      policy.BeginStep(queue, running, {});
      policy.OnScheduled(low, {.prompt_tokens = 100, .output_tokens = 0, .cost = 100.0});
    }
    policy.BeginStep(queue, running, {});
    EXPECT_EQ(policy.shares().deficit(Priority::kHigh) > 0.0, held_off);
  }
}

TEST(PriorityPolicyTest, OnlyAStrictlyHigherClassPreemptsAndNobodyAPromotedOne) {
  for (const bool strict : {false, true}) {
    PriorityPolicy policy(kShares, strict, true);
    const Sequence high = Waiting(Priority::kHigh, 9);
    const Sequence medium = Waiting(Priority::kMedium, 8);
    Sequence low = Running(Priority::kLow, 0);
    EXPECT_TRUE(policy.MayPreempt(high, medium));
    EXPECT_TRUE(policy.MayPreempt(medium, low));
    EXPECT_FALSE(policy.MayPreempt(medium, high));
    EXPECT_FALSE(policy.MayPreempt(low, medium));
    EXPECT_FALSE(policy.MayPreempt(medium, Running(Priority::kMedium, 20)));
    low.promoted = true;
    EXPECT_FALSE(policy.MayPreempt(high, low));
  }
}

TEST(PriorityPolicyTest, TheVictimIsOfTheLowestClassThenLosesLeast) {
  PriorityPolicy keeps(kShares, false, true);
  PriorityPolicy loses(kShares, false, false);
  const Sequence high = Running(Priority::kHigh, 9, 16, 1);
  const Sequence medium = Running(Priority::kMedium, 8, 16, 1);
  const Sequence low_long = Running(Priority::kLow, 1, 500, 5);
  const Sequence low_short = Running(Priority::kLow, 2, 20, 90);
  const std::vector<const Sequence*> all = {&high, &medium, &low_long, &low_short};
  EXPECT_EQ(keeps.PickVictim(all), 2U) << "nothing is computed again: fewest generated";
  EXPECT_EQ(loses.PickVictim(all), 3U) << "109 positions against 504";
  const Sequence twin = Running(Priority::kLow, 5, 20, 90);
  const std::vector<const Sequence*> twins = {&high, &low_short, &twin};
  EXPECT_EQ(loses.PickVictim(twins), 2U) << "of equal ones the newest";
  const std::vector<const Sequence*> alone = {&high};
  EXPECT_EQ(keeps.PickVictim(alone), 0U);
}

TEST(PriorityPolicyTest, OnesThatWerePreemptedOftenGiveWayOnlyWhereAllWere) {
  PriorityPolicy policy(kShares, false, true);
  Sequence high = Running(Priority::kHigh, 0, 16, 50);
  Sequence medium = Running(Priority::kMedium, 1);
  Sequence low = Running(Priority::kLow, 2);
  low.preemptions = kMaxPreemptions;
  const std::vector<const Sequence*> all = {&low, &high, &medium};
  EXPECT_EQ(policy.PickVictim(all), 2U);
  medium.preemptions = kMaxPreemptions + 3;
  EXPECT_EQ(policy.PickVictim(all), 0U)
      << "not the one of the highest class, though it was never preempted";
  low.preemptions = kMaxPreemptions - 1;
  medium.preemptions = 0;
  EXPECT_EQ(policy.PickVictim(all), 0U);
}

TEST(PriorityPolicyTest, TheMostWorkOfTheHighestClassIsNeverTheVictim) {
  PriorityPolicy policy(kShares, false, true);
  const Sequence old = Running(Priority::kMedium, 0, 16, 200);
  Sequence other = Running(Priority::kMedium, 1, 16, 199);
  other.preemptions = kMaxPreemptions;
  for (const std::vector<const Sequence*>& both :
       {std::vector<const Sequence*>{&old, &other}, std::vector<const Sequence*>{&other, &old}}) {
    EXPECT_EQ(both[policy.PickVictim(both)], &other);
  }
}

}  // namespace
}  // namespace ropeway
