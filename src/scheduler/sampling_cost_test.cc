#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "policy/fair_policy.h"
#include "policy/policies.h"
#include "policy/priority_policy.h"
#include "scheduler/cost_model.h"
#include "scheduler/test_scheduler.h"

namespace ropeway::scheduler {
namespace {

core::Sequence Wanting(float temperature, float top_p) {
  core::CoreRequest request;
  request.spec.params.temperature = temperature;
  request.spec.params.top_p = top_p;
  return {request, 0};
}

TEST(SamplingCostTest, KnowsKindsAndThenEachSequence) {
  SamplingCost cost;
  core::Sequence first = Wanting(1.0F, 0.9F);
  core::Sequence second = Wanting(1.0F, 0.99F);
  core::Sequence greedy = Wanting(0.0F, 1.0F);
  EXPECT_EQ(cost.Sampling(first), 0.0) << "nothing is known yet";
  cost.OnSampled(&first, 0.004);
  EXPECT_DOUBLE_EQ(cost.Sampling(first), 0.004);
  EXPECT_DOUBLE_EQ(cost.Sampling(second), 0.004) << "as others of its kind";
  EXPECT_EQ(cost.Sampling(greedy), 0.0);
  cost.OnSampled(&second, 0.0);
  EXPECT_EQ(cost.Sampling(second), 0.0);
  EXPECT_DOUBLE_EQ(cost.Sampling(first), 0.004);
  cost.OnSampled(&first, 5.0);
  EXPECT_LT(cost.Sampling(first), 0.03) << "a stall says little";
  EXPECT_EQ(cost.Scoring(first), 0.0);
  first.spec.num_prompt_logprobs = 2;
  cost.OnScored(&first, 0.001);
  EXPECT_DOUBLE_EQ(cost.Scoring(first), 0.001);
}

class SamplingTest : public SchedulerTest {
 protected:
  // Runs a step that takes a millisecond for each row, and `each` more for each token that a
  // sequence of a tenant samples whose name begins with `costly`.
  std::string TimedStep(const std::string& costly, base::Duration each) {
    std::string text = Step();
    core::StepResult result;
    base::Duration took{};
    for (const auto& sequence : sequences_) {
      if (!sequence->running() || (" " + text).find(Name(*sequence)) == std::string::npos) continue;
      took += std::chrono::milliseconds(1);
      result.sampled.emplace_back().sequence = sequence->id();
      if (!sequence->request.tenant.starts_with(costly)) continue;
      result.sampled.back().took = each;
      result.sampling += each;
    }
    scheduler_->OnStep(took + result.sampling, result);
    return text;
  }
  static std::string Name(const core::Sequence& sequence) {
    return " " + std::to_string(sequence.id()) + ":";
  }
  SamplingTest() { step_options_.learn_cost = true; }
  static SchedulingOptions Sixteen() { return {.max_num_seqs = 16, .max_num_batched_tokens = 512}; }

  policy::FairPolicy fair_;
};

TEST_F(SamplingTest, CostlySamplingIsSpreadOverSteps) {
  Start(1000, Sixteen(), &fair_);
  tenant_ = "a";
  for (int i = 0; i < 9; ++i) Add(1);
  TimedStep("a", std::chrono::milliseconds(10));
  // 1,000 units a second: ten units each, and eight fit. One goes in any case.
  for (int i = 1; i <= 9; ++i) {
    EXPECT_EQ(TimedStep("a", std::chrono::milliseconds(10)), std::to_string(i) + ":1+1*");
  }
  EXPECT_EQ(TimedStep("a", std::chrono::milliseconds(10)), "1:2+1*") << "each in its turn";
}

// Whatever the policy ranks by: else the first arrivals would have every step until they end.
TEST_F(SamplingTest, EachHasItsTurnUnderEveryPolicy) {
  for (const char* policy : {"fcfs", "sjf", "priority", "cache-aware"}) {
    sequences_.clear();
    now_ = base::TimePoint{0};
    const auto its = *policy::MakePolicy({.policy = policy});
    Start(1000, Sixteen(), its.get());
    tenant_ = "a";
    for (int i = 0; i < 9; ++i) Add(1);
    for (int i = 0; i < 28; ++i) TimedStep("a", std::chrono::milliseconds(10));
    for (const auto& sequence : sequences_) EXPECT_EQ(sequence->generated(), 4) << policy;
    scheduler_.reset();
  }
}

// A class that goes first has its share of the sampling, and no more.
TEST_F(SamplingTest, AClassThatRestsHasItsShare) {
  policy::PriorityPolicy priority({70, 20, 10}, /*strict=*/false, /*kv_is_kept=*/true);
  Start(1000, Sixteen(), &priority);
  tenant_ = "a";
  priority_ = Priority::kLow;
  const core::Sequence* const low = Add(1);
  priority_ = Priority::kHigh;
  for (int i = 0; i < 8; ++i) Add(1);
  for (int i = 0; i < 400; ++i) TimedStep("a", std::chrono::milliseconds(10));
  // One fits a step. An eighth of the steps is the share of class low, once class high is above its
  // own, after 128 steps.
  EXPECT_GE(low->generated(), 20);
  EXPECT_LE(low->generated(), 60);
  scheduler_.reset();
}

TEST_F(SamplingTest, OneThatRestsForMaxWaitGoesFirst) {
  max_wait_ = std::chrono::milliseconds(100);
  policy::PriorityPolicy strict({70, 20, 10}, /*strict=*/true, /*kv_is_kept=*/true);
  Start(1000, Sixteen(), &strict);
  tenant_ = "a";
  priority_ = Priority::kLow;
  const core::Sequence* const low = Add(1);
  priority_ = Priority::kHigh;
  for (int i = 0; i < 8; ++i) Add(1);
  for (int i = 0; i < 60; ++i) TimedStep("a", std::chrono::milliseconds(10));
  EXPECT_GE(low->generated(), 4);
  scheduler_.reset();
}

// So the bound of a turn between tenants holds, in steps: with what is sampled alone it took 290.
TEST_F(SamplingTest, ASlotIsChargedWhileItsSequenceRests) {
  Start(1000, Sixteen(), &fair_);
  for (int i = 0; i < 16; ++i) {
    tenant_ = "a" + std::to_string(i);
    Add(1);
  }
  for (int i = 0; i < 10; ++i) TimedStep("a", std::chrono::milliseconds(5));
  tenant_ = "b";
  const core::Sequence* const b = Add(1);
  int steps = 0;
  while (!b->running() && steps < 500) {
    TimedStep("a", std::chrono::milliseconds(5));
    ++steps;
  }
  EXPECT_LE(steps, kMinRunSteps + policy::kQuantumSteps);
}

// Else costly sampling would keep a slot from a higher class for eight turns.
TEST_F(SamplingTest, AHigherClassTakesTheSlotOfOneThatRests) {
  SchedulingOptions options = Sixteen();
  options.max_num_seqs = 9;
  policy::PriorityPolicy strict({70, 20, 10}, /*strict=*/true, /*kv_is_kept=*/true);
  Start(1000, options, &strict);
  tenant_ = "a";
  priority_ = Priority::kLow;
  for (int i = 0; i < 9; ++i) Add(1);
  for (int i = 0; i < kMinRunSteps; ++i) {
    TimedStep("a", std::chrono::milliseconds(10));
  }
  tenant_ = "b";
  priority_ = Priority::kHigh;
  const core::Sequence* const high = Add(1);
  TimedStep("a", std::chrono::milliseconds(10));
  EXPECT_TRUE(high->running());
  EXPECT_EQ(reasons_, "priority");
  scheduler_.reset();
}

TEST_F(SamplingTest, OthersDecodeInEachStep) {
  Start(1000, Sixteen(), &fair_);
  tenant_ = "a";
  for (int i = 0; i < 9; ++i) Add(1);
  TimedStep("a", std::chrono::milliseconds(10));
  tenant_ = "b";
  const core::Sequence* b = Add(1);
  TimedStep("a", std::chrono::milliseconds(10));
  const int32_t before = b->generated();
  for (int i = 0; i < 20; ++i) TimedStep("a", std::chrono::milliseconds(10));
  EXPECT_EQ(b->generated() - before, 20);
}

// Else many requests for one token each would make every step a long one.
TEST_F(SamplingTest, FirstTokensAreSpreadToo) {
  step_options_.mixed_prefill_budget = 32;
  Start(1000, Sixteen(), &fair_);
  tenant_ = "a";
  std::vector<core::Sequence*> first;
  for (int i = 0; i < 9; ++i) first.push_back(Add(1));
  TimedStep("a", std::chrono::milliseconds(10));
  for (core::Sequence* sequence : first) {
    scheduler_->Remove(sequence, core::SequenceEvent::kEnd);
  }
  tenant_ = "b";
  core::Sequence* const b = Add(1);
  b->samples = core::SampleKind::kLargest;
  TimedStep("a", std::chrono::milliseconds(10));
  tenant_ = "a";
  std::vector<const core::Sequence*> more;
  for (int i = 0; i < 5; ++i) more.push_back(Add(1));
  const auto started = [&more] {
    return std::count_if(more.begin(), more.end(),
                         [](const core::Sequence* s) { return s->generated() > 0; });
  };
  TimedStep("a", std::chrono::milliseconds(10));
  EXPECT_EQ(started(), 2) << "eleven units each, of 32";
  EXPECT_EQ(b->generated(), 2);
  for (int i = 0; i < 2; ++i) TimedStep("a", std::chrono::milliseconds(10));
  EXPECT_EQ(started(), 5);
}

TEST_F(SamplingTest, CheapSamplingChangesNothing) {
  Start(1000, Sixteen(), &fair_);
  tenant_ = "a";
  for (int i = 0; i < 9; ++i) Add(1);
  TimedStep("a", std::chrono::microseconds(100));
  for (int i = 0; i < 20; ++i) TimedStep("a", std::chrono::microseconds(100));
  for (const auto& sequence : sequences_) EXPECT_EQ(sequence->generated(), 21);
}

TEST_F(SamplingTest, ItIsChargedToTheTenant) {
  SchedulingOptions options = Sixteen();
  options.max_num_seqs = 2;
  Start(1000, options, &fair_);
  tenant_ = "a";
  const core::Sequence* a = Add(1);
  tenant_ = "b";
  const core::Sequence* b = Add(1);
  TimedStep("a", std::chrono::milliseconds(4));
  const int64_t a_before = fair_.ServiceOf(*a);
  const int64_t b_before = fair_.ServiceOf(*b);
  for (int i = 0; i < 10; ++i) TimedStep("a", std::chrono::milliseconds(4));
  const auto per_token = static_cast<double>(policy::kServiceOfDecode) / 2;
  EXPECT_NEAR(static_cast<double>(fair_.ServiceOf(*b) - b_before), 20 * per_token, per_token);
  EXPECT_NEAR(static_cast<double>(fair_.ServiceOf(*a) - a_before), 60 * per_token, 3 * per_token)
      << "two for the token and four for sampling it";
}

}  // namespace
}  // namespace ropeway::scheduler
