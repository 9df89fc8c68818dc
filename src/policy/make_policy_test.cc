#include "policy/make_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/test_sequences.h"

namespace ropeway {
namespace {

using testing::HasSubstr;

std::unique_ptr<SchedulingPolicy> Make(const std::string& name) {
  PolicyOptions options;
  options.name = name;
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

TEST(MakePolicyTest, ABadNameIsSaidClearly) {
  struct Case {
    const char* name;
    const char* says;
  };
  for (const Case& c :
       {Case{"", "is empty"}, Case{"lifo", "\"lifo\" is unknown"},
        Case{"priority+lifo", "the unknown part \"lifo\""}, Case{"priority+", "an empty part"},
        Case{"+fair", "an empty part"}, Case{"fair+priority+fair", "names fair twice"},
        Case{"priority+fair+sjf+fcfs", "more than three"}, Case{"Priority", "is unknown"}}) {
    PolicyOptions options;
    options.name = c.name;
    const auto policy = MakePolicy(options);
    ASSERT_FALSE(policy.ok()) << c.name;
    EXPECT_EQ(policy.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(policy.status().field(), "policy");
    EXPECT_THAT(policy.status().message(), HasSubstr(c.says));
    EXPECT_THAT(policy.status().message(), HasSubstr("cache-aware, priority, fair"));
  }
}

TEST(MakePolicyTest, BadSharesAreSaidClearlyUnderEveryPolicy) {
  for (const std::array<int, 3>& shares :
       {std::array<int, 3>{70, 20, 11}, std::array<int, 3>{90, 10, 0},
        std::array<int, 3>{110, -20, 10}, std::array<int, 3>{2147483647, 2147483647, 2147483647}}) {
    PolicyOptions options;
    options.name = "fcfs";
    options.class_shares = shares;
    const auto policy = MakePolicy(options);
    ASSERT_FALSE(policy.ok()) << shares[0];
    EXPECT_EQ(policy.status().field(), "class_shares");
    EXPECT_THAT(policy.status().message(), HasSubstr(std::to_string(shares[0]) + ","));
    EXPECT_THAT(policy.status().message(), HasSubstr("add up to 100"));
  }
  PolicyOptions options;
  options.class_shares = {70, 20, 11};
  EXPECT_THAT(MakePolicy(options).status().message(), HasSubstr("add up to 101"));
}

TEST(CombinedPolicyTest, TheFirstPartDecidesAndTheNextBreaksItsTies) {
  const auto policy = Make("priority+fair");
  Sequence high = WaitingSequence(2);
  high.priority = Priority::kHigh;
  Sequence a = WaitingSequence(0);
  a.tenant = "a";
  Sequence b = WaitingSequence(1);
  b.tenant = "b";
  std::vector<Sequence*> queue = {&a, &b, &high};
  high.tenant = "a";
  policy->BeginStep(queue, {}, TimePoint{1});
  EXPECT_EQ(policy->RankOf(a), policy->RankOf(b)) << "the arrival decides";
  policy->OnScheduled(a, {.prompt_tokens = 10, .output_tokens = 1, .cost = 10});
  EXPECT_LT(policy->RankOf(b), policy->RankOf(a));
  EXPECT_LT(policy->RankOf(high), policy->RankOf(b)) << "its class counts before its tenant";
  EXPECT_TRUE(policy->MayPreempt(high, a));
  const std::vector<const Sequence*> candidates = {&high, &a, &b};
  EXPECT_EQ(policy->PickVictim(candidates), 2U) << "priority's rule: low class, then the newest";

  const auto other = Make("fair+priority");
  other->BeginStep(queue, {}, TimePoint{1});
  other->OnScheduled(a, {.prompt_tokens = 10, .output_tokens = 1, .cost = 10});
  EXPECT_LT(other->RankOf(b), other->RankOf(high));
  EXPECT_LT(other->RankOf(high), other->RankOf(a));
  EXPECT_FALSE(other->MayPreempt(high, a));
  EXPECT_EQ(other->PickVictim(candidates), 0U) << "fair's rule: the newest of a";
}

TEST(CombinedPolicyTest, AllPartsHearOfAnEnd) {
  const auto policy = Make("priority+sjf");
  const Sequence asks = WaitingSequence(0, 10, 1000);
  policy->OnFinished(RunningSequence(1, 10, 1000, 40), true);
  EXPECT_EQ(policy->RankOf(asks).keys[1], 50);
}

}  // namespace
}  // namespace ropeway
