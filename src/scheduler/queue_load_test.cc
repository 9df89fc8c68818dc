// Predicted waits, by tenant.
#include "scheduler/queue_load.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "policy/policies.h"
#include "scheduler/test_scheduler.h"

namespace ropeway::scheduler {
namespace {

class LoadTest : public SchedulerTest {
 protected:
  void StartLoad(const std::string& policy, int slots) {
    policy_ = *policy::MakePolicy({.name = policy});
    SchedulerOptions options{.max_num_seqs = slots, .max_num_batched_tokens = 64};
    options.has_classes = policy.find("priority") == 0;
    options.learn_cost = true;
    options.attention_weight = 0.0;
    Start(10'000, options, policy_.get());
  }
  core::Sequence* AddLimited(const char* tenant, int32_t prompt, int32_t tokens) {
    tenant_ = tenant;
    ignore_eos_ = true;
    return Add(prompt, tokens);
  }
  // Steps of 10 ms each.
  void Busy(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step();
      scheduler_->OnStep(kStep);
    }
  }
  double Wait(const char* tenant, Priority priority = Priority::kMedium) const {
    return scheduler_->WaitSeconds(priority, tenant, 1.0);
  }

  std::unique_ptr<policy::SchedulingPolicy> policy_;
};

// A request with n = 64: /v1/queue said 2 s, and it took 130.
TEST_F(LoadTest, EqualRequestsThatRunToTheirLimitEndTogether) {
  for (const char* policy : {"fcfs", "priority"}) {
    sequences_.clear();
    now_ = base::TimePoint{0};
    StartLoad(policy, 4);
    for (int i = 0; i < 4; ++i) AddLimited("a", 4, 1000);
    Busy(200);
    // 200 of 1,000 steps are over: 8 s are left.
    EXPECT_NEAR(Wait("b"), 8.0, 0.4) << policy;
    EXPECT_NEAR(scheduler_->WaitSeconds(Priority::kMedium), 8.0, 0.4) << policy;
  }
}

TEST_F(LoadTest, AnotherTenantWaitsForItsTurnAlone) {
  StartLoad("priority+fair", 4);
  for (int i = 0; i < 4; ++i) AddLimited("a", 4, 1000);
  Busy(200);
  EXPECT_NEAR(Wait("a"), 8.0, 0.4);
  const double promised = Wait("b");
  EXPECT_NEAR(promised, 0.01 * (kMinRunSteps + policy::kQuantumSteps / 4), 0.01);
  EXPECT_EQ(scheduler_->WaitSeconds(Priority::kMedium), promised) << "as any newcomer";
  for (int i = 0; i < 50; ++i) AddLimited("a", 4, 1000);
  EXPECT_NEAR(Wait("b"), promised, 0.01) << "whatever waits of others";
  EXPECT_GT(Wait("a"), 100);
  const base::TimePoint came = now_;
  const core::Sequence* b = AddLimited("b", 4, 8);
  while (!b->running()) Busy(1);
  const double waited = base::ToSeconds(now_ - came);
  EXPECT_LE(waited, promised);
  EXPECT_GE(waited, promised / 2);
}

TEST_F(LoadTest, TheBacklogsOfTwoTenantsAreServedSideBySide) {
  StartLoad("priority+fair", 4);
  for (int i = 0; i < 4; ++i) AddLimited("a", 4, 1000);
  Busy(200);
  for (int i = 0; i < 20; ++i) AddLimited("b", 4, 100);
  const double alone = 20 * 104 / 400.0;
  EXPECT_NEAR(Wait("b"), 2 * alone, 0.15 * alone) << "half the speed is its own";
  const double to_c = Wait("c");
  EXPECT_LT(to_c, 0.5);
}

TEST_F(LoadTest, HigherClassesGoFirstWhoeverSentThem) {
  StartLoad("priority+fair", 4);
  for (int i = 0; i < 4; ++i) AddLimited("a", 4, 1000);
  Busy(200);
  const double before = Wait("c");
  priority_ = Priority::kHigh;
  for (int i = 0; i < 5; ++i) AddLimited("a", 20, 380);
  EXPECT_NEAR(Wait("c") - before, 5 * 400 / 400.0, 0.3);
  EXPECT_LT(Wait("c", Priority::kHigh), 0.01) << "a lower class runs";
}

TEST_F(LoadTest, NoneWaitsWhereSlotsAreFree) {
  StartLoad("priority+fair", 4);
  EXPECT_EQ(Wait("b"), 0.0);
  for (int i = 0; i < 3; ++i) AddLimited("a", 4, 1000);
  Busy(50);
  EXPECT_EQ(Wait("a"), 0.0);
  EXPECT_EQ(Wait("b"), 0.0);
}

}  // namespace
}  // namespace ropeway::scheduler
