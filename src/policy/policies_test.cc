#include "policy/policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "policy/test_sequences.h"

namespace ropeway::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<SchedulingPolicy> Make(const std::string& name) {
  QueueOptions options;
  options.policy = name;
  auto policy = MakePolicy(options);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return std::move(*policy);
}

TEST(MakePolicyTest, KnowsEachNameAndTheirCombinations) {
  for (const char* name : {"fcfs", "sjf", "length-balance", "cache-aware", "priority", "fair",
                           "priority+fair", "fair+sjf", "priority+fair+cache-aware"}) {
    EXPECT_STREQ(Make(name)->name(), name);
  }
  EXPECT_STREQ((*MakePolicy({}))->name(), "priority+fair");
}

TEST(MakePolicyTest, ABadNameIsNamed) {
  struct Case {
    const char* name;
    const char* says;
  };
  for (const Case& c :
       {Case{"", "is empty"}, Case{"lifo", "\"lifo\" is unknown"},
        Case{"priority+lifo", "the unknown part \"lifo\""}, Case{"priority+", "an empty part"},
        Case{"+fair", "an empty part"}, Case{"fair+priority+fair", "names fair twice"},
        Case{"priority+fair+sjf+fcfs", "more than three"}, Case{"Priority", "is unknown"}}) {
    QueueOptions options;
    options.policy = c.name;
    const auto policy = MakePolicy(options);
    ASSERT_FALSE(policy.ok()) << c.name;
    EXPECT_EQ(policy.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(policy.status().field(), "policy");
    EXPECT_THAT(policy.status().message(), HasSubstr(c.says));
    EXPECT_THAT(policy.status().message(), HasSubstr("cache-aware, priority, fair"));
  }
}

TEST(MakePolicyTest, BadSharesAreNamedUnderEveryPolicy) {
  for (const std::array<int, 3>& shares :
       {std::array<int, 3>{70, 20, 11}, std::array<int, 3>{90, 10, 0},
        std::array<int, 3>{110, -20, 10}, std::array<int, 3>{2147483647, 2147483647, 2147483647}}) {
    QueueOptions options;
    options.policy = "fcfs";
    options.class_shares = shares;
    const auto policy = MakePolicy(options);
    ASSERT_FALSE(policy.ok()) << shares[0];
    EXPECT_EQ(policy.status().field(), "class_shares");
    EXPECT_THAT(policy.status().message(), HasSubstr(std::to_string(shares[0]) + ","));
    EXPECT_THAT(policy.status().message(), HasSubstr("add up to 100"));
  }
  QueueOptions options;
  options.class_shares = {70, 20, 11};
  EXPECT_THAT(MakePolicy(options).status().message(), HasSubstr("add up to 101"));
}

TEST(MakePolicyTest, ClassesHavePartsWhereTheyComeFirst) {
  const auto made = [](const char* policy, bool strict) {
    return *MakePolicy({.policy = policy, .class_shares = {60, 30, 10}, .strict_priority = strict});
  };
  EXPECT_THAT(made("priority", false)->class_parts(), ElementsAre(0.6, 0.3, 0.1));
  EXPECT_THAT(made("priority+fair", false)->class_parts(), ElementsAre(0.6, 0.3, 0.1));
  EXPECT_THAT(made("priority+fair", true)->class_parts(), Each(0.0))
      << "a higher class always goes first";
  EXPECT_THAT(made("fair+priority", false)->class_parts(), Each(0.0))
      << "the class only breaks ties";
  EXPECT_TRUE(made("priority+sjf", true)->has_classes());
  EXPECT_FALSE(made("sjf+priority", false)->has_classes());
}

TEST(CombinedPolicyTest, TheFirstPartDecidesAndTheNextBreaksItsTies) {
  const auto policy = Make("priority+fair");
  core::Sequence high = WaitingSequence(2);
  high.request.priority = Priority::kHigh;
  core::Sequence a = WaitingSequence(0);
  a.request.tenant = "a";
  core::Sequence b = WaitingSequence(1);
  b.request.tenant = "b";
  std::vector<core::Sequence*> queue = {&a, &b, &high};
  high.request.tenant = "a";
  policy->BeginStep(queue, {}, base::TimePoint{1});
  EXPECT_EQ(policy->RankOf(a), policy->RankOf(b)) << "the arrival decides";
  policy->OnScheduled(a, {.prompt_tokens = 10, .output_tokens = 1, .cost = 10});
  EXPECT_LT(policy->RankOf(b), policy->RankOf(a));
  EXPECT_LT(policy->RankOf(high), policy->RankOf(b)) << "its class counts before its tenant";
  EXPECT_TRUE(policy->MayPreempt(high, a));
  const std::vector<const core::Sequence*> candidates = {&high, &a, &b};
  EXPECT_EQ(policy->PickVictim(candidates), 2U) << "priority's rule: low class, then the newest";

  const auto other = Make("fair+priority");
  other->BeginStep(queue, {}, base::TimePoint{1});
  other->OnScheduled(a, {.prompt_tokens = 10, .output_tokens = 1, .cost = 10});
  EXPECT_LT(other->RankOf(b), other->RankOf(high));
  EXPECT_LT(other->RankOf(high), other->RankOf(a));
  EXPECT_FALSE(other->MayPreempt(high, a));
  EXPECT_EQ(other->PickVictim(candidates), 0U) << "fair's rule: the newest of a";
}

TEST(CombinedPolicyTest, ServiceIsThatOfThePartThatDividesItAndTheFirstOrdersClasses) {
  core::Sequence high = WaitingSequence(0);
  high.request.priority = Priority::kHigh;
  high.request.tenant = "a";
  core::Sequence low = WaitingSequence(1);
  low.request.priority = Priority::kLow;
  low.request.tenant = "b";
  std::vector<core::Sequence*> queue = {&high, &low};
  for (const char* name : {"priority+fair", "fair+priority", "sjf+fair", "fair"}) {
    const auto policy = Make(name);
    EXPECT_TRUE(policy->is_fair()) << name;
    policy->BeginStep(queue, {}, base::TimePoint{1});
    policy->OnScheduled(high, {.prompt_tokens = 2, .output_tokens = 0, .cost = 2});
    EXPECT_EQ(policy->ServiceOf(high), kServiceOfDecode) << name;
    EXPECT_EQ(policy->ServiceOf(low), 0) << name;
    const bool ordered = std::string(name) == "priority+fair";
    EXPECT_EQ(policy->ClassOrderOf(low) > policy->ClassOrderOf(high), ordered) << name;
  }
  for (const char* name : {"priority", "fcfs", "priority+sjf"}) {
    const auto policy = Make(name);
    EXPECT_FALSE(policy->is_fair()) << name;
    policy->BeginStep(queue, {}, base::TimePoint{1});
    policy->OnScheduled(high, {.prompt_tokens = 2, .output_tokens = 0, .cost = 2});
    EXPECT_EQ(policy->ServiceOf(high), 0) << name;
  }
}

TEST(CombinedPolicyTest, AllPartsReceiveAnEnd) {
  const auto policy = Make("priority+sjf");
  const core::Sequence asks = WaitingSequence(0, 10, 1000);
  policy->OnFinished(RunningSequence(1, 10, 1000, 40), true);
  EXPECT_EQ(policy->RankOf(asks).keys[1], 50);
}

TEST(FcfsPolicyTest, RanksByArrivalAndPreemptsTheNewest) {
  FcfsPolicy policy;
  core::Sequence first;
  core::Sequence second;
  core::Sequence third;
  first.order = 3;
  second.order = 8;
  third.order = 12;
  EXPECT_LT(policy.RankOf(first), policy.RankOf(second));
  second.preemptions = 5;
  second.state = core::SequenceState::kPreempted;
  EXPECT_LT(policy.RankOf(second), policy.RankOf(third)) << "a preempted sequence keeps its order";
  const std::vector<const core::Sequence*> candidates = {&first, &third, &second};
  EXPECT_EQ(policy.PickVictim(candidates), 1U);
  const std::vector<const core::Sequence*> alone = {&first};
  EXPECT_EQ(policy.PickVictim(alone), 0U);
}

TEST(SjfPolicyTest, RanksByWhatIsStillToCompute) {
  SjfPolicy policy;
  const core::Sequence small = WaitingSequence(5, 20, 10);
  const core::Sequence large = WaitingSequence(1, 200, 10);
  core::Sequence cached = WaitingSequence(9, 200, 10);
  cached.sched.cached_hint = 192;
  EXPECT_LT(policy.RankOf(small), policy.RankOf(large));
  EXPECT_LT(policy.RankOf(cached), policy.RankOf(small)) << "8 tokens of 200 are left";
  const core::Sequence nearly_done = RunningSequence(12, 200, 10, 9);
  EXPECT_EQ(policy.RankOf(nearly_done).keys[0], 2) << "its last id and one more token";
  // The hint is of the time when it waited: what counts is what it has computed.
  core::Sequence half = WaitingSequence(3, 200, 10);
  half.state = core::SequenceState::kPrefilling;
  half.computed = 100;
  half.sched.cached_hint = 192;
  EXPECT_EQ(policy.RankOf(half).keys[0], 110);
}

TEST(SjfPolicyTest, LearnsFromThoseThatCompletedOnly) {
  SjfPolicy policy;
  const core::Sequence asks = WaitingSequence(0, 10, 1000);
  EXPECT_EQ(policy.RankOf(asks).keys[0], 10 + 128);
  policy.OnFinished(RunningSequence(1, 10, 1000, 700), false);
  EXPECT_EQ(policy.RankOf(asks).keys[0], 10 + 128) << "a cancelled one says nothing";
  policy.OnFinished(RunningSequence(1, 10, 1000, 40), true);
  EXPECT_EQ(policy.RankOf(asks).keys[0], 10 + 40);
}

TEST(SjfPolicyTest, TheLongestIsPreemptedAndOfEqualOnesTheNewest) {
  SjfPolicy policy;
  const core::Sequence a = RunningSequence(1, 10, 50, 5);
  const core::Sequence b = RunningSequence(2, 10, 90, 5);
  const core::Sequence c = RunningSequence(7, 10, 90, 5);
  const core::Sequence d = RunningSequence(4, 10, 90, 5);
  const std::vector<const core::Sequence*> candidates = {&a, &b, &c, &d};
  EXPECT_EQ(policy.PickVictim(candidates), 2U);
  EXPECT_FALSE(policy.MayPreempt(a, b));
}

TEST(LengthBalancePolicyTest, WaitingOnesRankByTheirDistanceFromThoseThatRun) {
  LengthBalancePolicy policy;
  core::Sequence short_one = RunningSequence(0, 90, 64, 10);
  core::Sequence long_one = RunningSequence(1, 290, 64, 10);  // Mean length 200.
  core::Sequence near = WaitingSequence(9, 210);
  core::Sequence far_below = WaitingSequence(2, 25);
  core::Sequence far_above = WaitingSequence(3, 3200);
  std::vector<core::Sequence*> queue = {&far_below, &far_above, &near};
  std::vector<core::Sequence*> running = {&short_one, &long_one};
  policy.BeginStep(queue, running, seconds(0));
  EXPECT_LT(policy.RankOf(short_one), policy.RankOf(near));
  EXPECT_EQ(policy.RankOf(short_one), policy.RankOf(long_one)) << "running ones go by arrival";
  EXPECT_LT(policy.RankOf(near), policy.RankOf(far_below));
  EXPECT_LT(policy.RankOf(far_below), policy.RankOf(far_above)) << "3 doublings against 4";
}

TEST(LengthBalancePolicyTest, WithoutRunningSequencesTheOldestIsTheReference) {
  LengthBalancePolicy policy;
  core::Sequence oldest = WaitingSequence(1, 1000);
  core::Sequence like_it = WaitingSequence(5, 1020);
  core::Sequence other = WaitingSequence(2, 100);
  std::vector<core::Sequence*> queue = {&other, &like_it, &oldest};
  policy.BeginStep(queue, {}, seconds(0));
  EXPECT_EQ(policy.RankOf(oldest).keys[0], 0);
  EXPECT_EQ(policy.RankOf(like_it).keys[0], 0) << "alike: the arrival decides";
  EXPECT_LT(policy.RankOf(like_it), policy.RankOf(other));
}

TEST(LengthBalancePolicyTest, WaitingMakesUpForTheDistance) {
  LengthBalancePolicy policy;
  core::Sequence runs = RunningSequence(0, 64, 64, 64);  // 128.
  core::Sequence odd = WaitingSequence(1, 1 << 17);      // 10 doublings away.
  odd.sched.queued_since = seconds(100);
  core::Sequence like = WaitingSequence(2, 128);
  std::vector<core::Sequence*> queue = {&odd, &like};
  std::vector<core::Sequence*> running = {&runs};
  for (const milliseconds waited : {milliseconds(0), milliseconds(9500)}) {
    like.sched.queued_since = seconds(100) + waited;
    policy.BeginStep(queue, running, like.sched.queued_since);
    EXPECT_LT(policy.RankOf(like), policy.RankOf(odd)) << waited.count();
  }
  policy.BeginStep(queue, running, seconds(110));
  EXPECT_EQ(policy.RankOf(odd), policy.RankOf(like)) << "from now on the arrival decides";
  policy.BeginStep(queue, running, seconds(1000));
  EXPECT_EQ(policy.RankOf(odd), policy.RankOf(like)) << "age never beats an older alike one";
}

TEST(LengthBalancePolicyTest, TheNewestIsPreempted) {
  LengthBalancePolicy policy;
  const core::Sequence a = RunningSequence(4);
  const core::Sequence b = RunningSequence(9);
  const core::Sequence c = RunningSequence(6);
  const std::vector<const core::Sequence*> candidates = {&a, &b, &c};
  EXPECT_EQ(policy.PickVictim(candidates), 1U);
}

TEST(CacheAwarePolicyTest, TheLongestCachedPrefixFirstBehindThoseThatRun) {
  CacheAwarePolicy policy;
  policy.BeginStep({}, {}, seconds(5));
  core::Sequence cold = WaitingSequence(0);
  core::Sequence warm = WaitingSequence(1);
  warm.sched.cached_hint = 160;
  core::Sequence hot = WaitingSequence(2);
  hot.sched.cached_hint = 1600;
  for (core::Sequence* s : {&cold, &warm, &hot}) s->sched.queued_since = seconds(4);
  EXPECT_LT(policy.RankOf(hot), policy.RankOf(warm));
  EXPECT_LT(policy.RankOf(warm), policy.RankOf(cold));
  const core::Sequence runs = RunningSequence(7);
  EXPECT_LT(policy.RankOf(runs), policy.RankOf(hot));
  EXPECT_EQ(policy.RankOf(runs), policy.RankOf(RunningSequence(3))) << "these go by arrival";
}

TEST(CacheAwarePolicyTest, WaitingCountsAsCachedTokens) {
  CacheAwarePolicy policy;
  core::Sequence cold = WaitingSequence(0);
  cold.sched.queued_since = seconds(10);
  core::Sequence hot = WaitingSequence(1);
  hot.sched.cached_hint = 4096;
  hot.sched.queued_since = seconds(25);
  policy.BeginStep({}, {}, seconds(26));
  EXPECT_LT(policy.RankOf(hot), policy.RankOf(cold)) << "15 seconds later";
  hot.sched.queued_since = seconds(26) + milliseconds(100);
  policy.BeginStep({}, {}, seconds(27));
  EXPECT_LT(policy.RankOf(cold), policy.RankOf(hot)) << "more than 16 seconds later";
  EXPECT_FALSE(policy.MayPreempt(hot, cold));
}

TEST(CacheAwarePolicyTest, TheNewestIsPreempted) {
  CacheAwarePolicy policy;
  const core::Sequence a = RunningSequence(4);
  const core::Sequence b = RunningSequence(2);
  const std::vector<const core::Sequence*> candidates = {&a, &b};
  EXPECT_EQ(policy.PickVictim(candidates), 0U);
}

}  // namespace
}  // namespace ropeway::policy
