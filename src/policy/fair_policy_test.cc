#include "policy/fair_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "policy/test_sequences.h"

namespace ropeway::policy {
namespace {

using std::chrono::seconds;

core::Sequence Of(const char* tenant, uint64_t order) {
  core::Sequence sequence = WaitingSequence(order);
  sequence.request.tenant = tenant;
  return sequence;
}

class TenantCountersTest : public testing::Test {
 protected:
  void Step(std::vector<core::Sequence*> queue, std::vector<core::Sequence*> running = {}) {
    now_ += seconds(1);
    counters_.BeginStep(queue, running, now_);
  }
  void Charge(const core::Sequence& sequence, int32_t prompt, int32_t output) {
    counters_.Charge(sequence, {.prompt_tokens = prompt, .output_tokens = output});
  }
  double Tokens(const core::Sequence& sequence) const {
    return static_cast<double>(counters_.Of(sequence)) / TenantCounters::kUnitsPerToken;
  }
  // `a_` and `b_` come, and are charged for prompts of so many tokens.
  void BeginWithTwo(int32_t prompt_of_a, int32_t prompt_of_b) {
    Step({&a_, &b_});
    Charge(a_, prompt_of_a, 0);
    Charge(b_, prompt_of_b, 0);
  }

  core::Sequence a_ = Of("a", 1);
  core::Sequence b_ = Of("b", 2);
  TenantCounters counters_;
  base::TimePoint now_{};
};

TEST_F(TenantCountersTest, CountsPromptAndOutputByWeight) {
  core::Sequence a = Of("a", 0);
  core::Sequence b = Of("b", 1);
  b.request.tenant_weight = 4.0;
  core::Sequence tiny = Of("c", 2);
  tiny.request.tenant_weight = 100.0;
  Step({&a, &b, &tiny});
  Charge(a, 10, 3);
  Charge(b, 10, 3);
  EXPECT_DOUBLE_EQ(Tokens(a), 16.0);
  EXPECT_DOUBLE_EQ(Tokens(b), 4.0);
  Charge(tiny, 1, 0);
  EXPECT_GT(counters_.Of(tiny), 0) << "the smallest charge is not lost";
}

TEST_F(TenantCountersTest, CountsAttentionSamplingAndTheBlocksThatAreHeld) {
  core::Sequence a = Of("a", 0);
  a.request.tenant_weight = 2.0;
  Step({&a});
  counters_.Charge(a, {.prompt_tokens = 0, .output_tokens = 1, .cost = 4, .extra = 3, .held = 0.5});
  EXPECT_DOUBLE_EQ(Tokens(a), 2.5);
  counters_.Charge(a, {.prompt_tokens = 0, .output_tokens = 1, .cost = 4, .extra = 3, .held = 32});
  EXPECT_DOUBLE_EQ(Tokens(a), 34.5) << "half of 64 slots' worth of blocks";
  counters_.Charge(a, {.prompt_tokens = 0, .output_tokens = 0, .cost = 100, .held = 32});
  EXPECT_DOUBLE_EQ(Tokens(a), 34.5) << "what is computed again is not charged";
  counters_.Charge(a, {.held = 0.5, .rests = true});
  EXPECT_DOUBLE_EQ(Tokens(a), 35.5) << "a slot is held as if it decoded";
  counters_.Charge(a, {.held = 32, .rests = true});
  EXPECT_DOUBLE_EQ(Tokens(a), 67.5);
}

TEST_F(TenantCountersTest, OneThatComesIsLiftedToTheLeastOfThoseThatWait) {
  BeginWithTwo(1000, 600);
  core::Sequence c = Of("c", 3);
  Step({&a_, &b_, &c});
  EXPECT_DOUBLE_EQ(Tokens(c), 600.0);
  // While it waits it keeps what it has.
  Charge(a_, 100, 0);
  Charge(b_, 900, 0);
  Step({&a_, &b_, &c});
  EXPECT_DOUBLE_EQ(Tokens(c), 600.0);
}

// A prompt that took long to encode comes after requests that were submitted later: it is new all
// the same.
TEST_F(TenantCountersTest, OneThatComesLateWithAnEarlierOrderIsLiftedToo) {
  BeginWithTwo(1000, 600);
  core::Sequence c = Of("c", 3);
  c.order = 0;
  Step({&a_, &b_, &c});
  EXPECT_DOUBLE_EQ(Tokens(c), 600.0);
}

TEST_F(TenantCountersTest, AReturningTenantIsNeverLowered) {
  BeginWithTwo(10, 5000);
  Step({&a_});
  core::Sequence b2 = Of("b", 3);
  Step({&a_, &b2});
  EXPECT_DOUBLE_EQ(Tokens(b2), 5000.0);
}

TEST_F(TenantCountersTest, ATenantThatStartsInEachStepIsNotWaiting) {
  // "light" has a request in the queue whenever a step begins, but each one starts at once: it is
  // under its share by its own choice, which earns no credit.
  core::Sequence heavy = Of("heavy", 0);
  for (uint64_t i = 1; i <= 50; ++i) {
    core::Sequence light = Of("light", i);
    Step({&heavy, &light});
    Charge(light, 5, 0);
    Charge(heavy, 500, 0);
  }
  core::Sequence light = Of("light", 51);
  Step({&heavy, &light});
  EXPECT_DOUBLE_EQ(Tokens(light), Tokens(heavy));
}

TEST_F(TenantCountersTest, AfterAnEmptyQueueATenantIsLiftedToTheLastThatLeft) {
  BeginWithTwo(100, 300);
  a_.state = b_.state = core::SequenceState::kDecoding;
  Step({}, {&a_, &b_});
  Charge(b_, 0, 50);  // It runs on.
  Step({}, {&a_, &b_});
  core::Sequence c = Of("c", 3);
  Step({&c}, {&a_, &b_});
  EXPECT_DOUBLE_EQ(Tokens(c), 400.0);
  EXPECT_DOUBLE_EQ(Tokens(a_), 100.0) << "it runs, but has not come back";
}

TEST_F(TenantCountersTest, OneThatIsPreemptedComesBackToo) {
  core::Sequence a = Of("a", 0);
  core::Sequence b = Of("b", 1);
  Step({&a, &b});
  b.state = core::SequenceState::kDecoding;
  Step({&a}, {&b});
  Charge(a, 1000, 0);
  b.state = core::SequenceState::kPreempted;
  b.sched.queued_since = now_;  // In that step.
  Step({&a, &b});
  EXPECT_DOUBLE_EQ(Tokens(b), 1000.0);
  Charge(a, 1000, 0);
  Step({&a, &b});
  EXPECT_DOUBLE_EQ(Tokens(b), 1000.0) << "by now it waits";
}

TEST_F(TenantCountersTest, ForgetsThoseThatWouldBeLiftedAnyway) {
  core::Sequence stays = Of("stays", 0);
  Step({&stays});
  for (uint64_t i = 1; i <= 5000; ++i) {
    core::Sequence other = Of(("t" + std::to_string(i)).c_str(), i);
    Step({&stays, &other});
    Charge(other, 1, 0);
    Charge(stays, 2, 0);
  }
  EXPECT_LE(counters_.size(), 200U);
}

TEST_F(TenantCountersTest, KeepsALimitedNumberOfOthersAndTheHeaviest) {
  core::Sequence stays = Of("stays", 0);
  Step({&stays});
  core::Sequence heavy = Of("heavy", 1);
  Step({&stays, &heavy});
  Charge(heavy, 100'000'000, 0);
  constexpr uint64_t kTenants = 3 * TenantCounters::kMaxIdleTenants;
  for (uint64_t i = 2; i < kTenants; ++i) {
    core::Sequence other = Of(("t" + std::to_string(i)).c_str(), i);
    Step({&stays, &other});
    Charge(other, 1000, 0);  // All above "stays", which is charged nothing.
  }
  EXPECT_LE(counters_.size(), TenantCounters::kMaxIdleTenants * 3 / 2 + 100);
  EXPECT_GE(counters_.size(), TenantCounters::kMaxIdleTenants);
  EXPECT_DOUBLE_EQ(Tokens(heavy), 1e8);
  EXPECT_DOUBLE_EQ(Tokens(stays), 0.0);
}

TEST(FairPolicyTest, TellsTheServiceOfATenant) {
  FairPolicy policy;
  EXPECT_TRUE(policy.is_fair());
  core::Sequence a = Of("a", 0);
  core::Sequence b = Of("b", 1);
  const std::vector<core::Sequence*> queue = {&a, &b};
  policy.BeginStep(queue, {}, base::TimePoint{1});
  for (int i = 0; i < kQuantumSteps; ++i) policy.OnScheduled(a, {.output_tokens = 1, .cost = 1});
  EXPECT_EQ(policy.ServiceOf(a) - policy.ServiceOf(b), kServiceQuantum);
  EXPECT_EQ(policy.ClassOrderOf(a), 0);
}

TEST(FairPolicyTest, TheTenantWithLeastGoesFirstAndTheNewestOfTheHeaviestIsPreempted) {
  FairPolicy policy;
  std::array<core::Sequence, 4> s;
  const std::array<const char*, 4> tenants = {"a", "a", "b", "b"};
  std::vector<core::Sequence*> queue;
  for (size_t i = 0; i < s.size(); ++i) {
    s[i] = WaitingSequence(i);
    s[i].request.tenant = tenants[i];
    queue.push_back(&s[i]);
  }
  policy.BeginStep(queue, {}, base::TimePoint{1});
  EXPECT_EQ(policy.RankOf(s[0]), policy.RankOf(s[3]));
  policy.OnScheduled(s[0], {.prompt_tokens = 16, .output_tokens = 1, .cost = 16.5});
  EXPECT_LT(policy.RankOf(s[2]), policy.RankOf(s[1])) << "b's turn, in the same step";
  const std::vector<const core::Sequence*> candidates = {&s[3], &s[0], &s[1], &s[2]};
  EXPECT_EQ(policy.PickVictim(candidates), 2U);
  s[2].sched.aged = true;
  policy.OnScheduled(s[2], {.prompt_tokens = 19, .output_tokens = 0, .cost = 19});
  EXPECT_LT(policy.RankOf(s[1]), policy.RankOf(s[3])) << "aged work is service";
}

// Three tenants that always have requests waiting; one server, a request at a time.
TEST(FairPolicyTest, ServiceOfBackloggedTenantsStaysWithinTwoRequests) {
  constexpr int32_t kLargest = 300 + 2 * 200;  // One request's service.
  FairPolicy policy;
  const std::array<std::string, 3> names = {"a", "b", "c"};
  const std::array<double, 3> weights = {1.0, 1.0, 2.0};
  std::array<double, 3> served{};
  std::deque<core::Sequence> waiting;
  uint64_t order = 0;
  const auto arrive = [&](size_t t) {
    // "a" asks for the longest, "b" floods the queue with short ones.
    const int32_t prompt = t == 0 ? 300 : 20 + static_cast<int32_t>(order % 50);
    waiting.push_back(WaitingSequence(order++, prompt, t == 0 ? 200 : 30));
    waiting.back().request.tenant = names[t];
    waiting.back().request.tenant_weight = weights[t];
  };
  for (size_t t = 0; t < 3; ++t) arrive(t);
  for (int i = 0; i < 20; ++i) arrive(1);
  arrive(0);
  arrive(2);
  for (int step = 1; step <= 3000; ++step) {
    std::vector<core::Sequence*> queue;
    for (core::Sequence& s : waiting) queue.push_back(&s);
    policy.BeginStep(queue, {}, base::TimePoint{step});
    const auto first = std::min_element(waiting.begin(), waiting.end(),
                                        [&](const core::Sequence& a, const core::Sequence& b) {
                                          const Rank ra = policy.RankOf(a);
                                          const Rank rb = policy.RankOf(b);
                                          return ra != rb ? ra < rb : a.order < b.order;
                                        });
    const auto t = static_cast<size_t>(first->request.tenant[0] - 'a');
    policy.OnScheduled(*first, {.prompt_tokens = first->prompt_len,
                                .output_tokens = first->request.max_tokens,
                                .cost = 1});
    served[t] += (first->prompt_len + 2.0 * first->request.max_tokens) / weights[t];
    waiting.erase(first);
    arrive(t);
    for (size_t a = 0; a < 3; ++a) {
      for (size_t b = 0; b < a; ++b) {
        ASSERT_LE(std::abs(served[a] - served[b]), 2 * kLargest) << "step " << step;
      }
    }
  }
  EXPECT_GT(served[0], 100 * kLargest);
}

}  // namespace
}  // namespace ropeway::policy
