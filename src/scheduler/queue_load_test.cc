#include "scheduler/queue_load.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "policy/policies.h"
#include "policy/scheduling_policy.h"
#include "scheduler/test_scheduler.h"

namespace ropeway::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// --- Pace.

TEST(PaceTest, NothingIsKnownBeforeThereIsEvidence) {
  Pace pace;
  pace.OnStep({100, 0}, milliseconds(200));
  pace.OnStep({0, 0}, seconds(1));  // It computed nothing.
  pace.OnStep({100, 0}, milliseconds(200));
  EXPECT_FALSE(pace.known());
  pace.OnStep({100, 0}, milliseconds(200));
  EXPECT_TRUE(pace.known());
}

TEST(PaceTest, PromptsAndDecodesAreTimedApart) {
  Pace pace;
  for (int i = 0; i < 40; ++i) {  // 1 ms for a prompt's unit, 5 ms for a decode's.
    pace.OnStep({400, 0}, milliseconds(400));
    pace.OnStep({0, 60}, milliseconds(300));
    pace.OnStep({32, 60}, milliseconds(332));
  }
  EXPECT_NEAR(pace.Seconds({1000, 0}), 1.0, 0.05);
  EXPECT_NEAR(pace.Seconds({0, 1000}), 5.0, 0.25);
}

TEST(PaceTest, WhatWasNotSeenFollowsByTheUsualRatio) {
  Pace prompts;
  Pace decodes;
  Pace both;  // Always in one proportion: 3 and 9 ms would explain it, and so would others.
  for (int i = 0; i < 10; ++i) {
    prompts.OnStep({100, 0}, milliseconds(200));
    decodes.OnStep({0, 50}, milliseconds(300));
    both.OnStep({64, 32}, milliseconds(480));
  }
  EXPECT_NEAR(prompts.Seconds({0, 1000}), core::DeviceProfile{}.decode_ratio * 2.0, 1e-6);
  EXPECT_NEAR(decodes.Seconds({1000, 0}), 6.0 / core::DeviceProfile{}.decode_ratio, 1e-6);
  EXPECT_NEAR(both.Seconds({1000, 0}), 3.0, 0.1);
  EXPECT_NEAR(both.Seconds({0, 1000}), 9.0, 0.3);
}

TEST(PaceTest, TheRatioIsTheDevices) {
  Pace prompts(8.0);
  Pace decodes(8.0);
  prompts.OnStep({100, 0}, milliseconds(200));
  decodes.OnStep({0, 50}, milliseconds(800));
  EXPECT_NEAR(prompts.Seconds({0, 1000}), 16.0, 1e-6);
  EXPECT_NEAR(decodes.Seconds({1000, 0}), 2.0, 1e-6);
}

TEST(PaceTest, AStallIsLeftOutAndAChangeIsNot) {
  Pace pace;
  for (int i = 0; i < 20; ++i) pace.OnStep({0, 50}, milliseconds(100));
  for (int i = 0; i + 1 < Pace::kMaxOutliers; ++i) pace.OnStep({0, 50}, seconds(40));
  EXPECT_NEAR(pace.Seconds({0, 50}), 0.1, 1e-6);
  pace.OnStep({0, 50}, milliseconds(100));
  for (int i = 0; i < Pace::kMaxOutliers; ++i) pace.OnStep({0, 50}, seconds(1));
  EXPECT_NEAR(pace.Seconds({0, 50}), 1.0, 1e-6);
}

// --- Waits. A prompt's token takes 1 ms, a generated one 2 ms.

class QueueLoadTest : public testing::Test {
 protected:
  // `tenants`, `preempts`: see LoadOptions.
  void Start(bool tenants = true, bool preempts = true, const policy::ClassParts& parts = {}) {
    load_ = std::make_unique<QueueLoad>(
        &costs_,
        LoadOptions{
            .has_classes = true, .has_tenants = tenants, .preempts = preempts, .parts = parts});
    for (int i = 0; i < 20; ++i) {
      load_->OnStep({1000, 0}, seconds(1));
      load_->OnStep({0, 500}, seconds(1));
    }
  }

  core::Sequence* Make(const std::string& tenant, int32_t prompt, int32_t outputs,
                       Priority priority, double weight) {
    auto sequence = std::make_unique<core::Sequence>();
    sequence->request.tenant = tenant;
    sequence->request.tenant_weight = weight;
    sequence->request.priority = priority;
    sequence->request.max_tokens = outputs;
    sequence->request.ignore_eos = true;
    sequence->prompt_len = sequence->length = prompt;
    load_->Add(*sequence);
    sequences_.push_back(std::move(sequence));
    return sequences_.back().get();
  }

  // Runs for so many more tokens.
  void Run(const std::string& tenant, int32_t tokens, Priority priority = Priority::kMedium,
           double weight = 1.0) {
    core::Sequence* const sequence = Make(tenant, 10, tokens - 1, priority, weight);
    sequence->state = core::SequenceState::kDecoding;
    sequence->computed = 9;
    running_.push_back(sequence);
  }

  // Each takes 10 + 2 x 100 = 210 ms alone.
  void Queue(const std::string& tenant, int count, Priority priority = Priority::kMedium) {
    for (int i = 0; i < count; ++i) load_->Enter(Make(tenant, 10, 100, priority, 1.0));
  }

  Work WorkOf(const core::CoreRequest& request) {
    return load_->WorkOf(core::Sequence(request, 0));
  }
  LoadView View(int slots) {
    LoadView view;
    load_->View({.jobs = running_, .slots = slots, .step_seconds = 0.01}, &view);
    return view;
  }
  double Wait(const std::string& tenant, int slots, Priority priority = Priority::kMedium,
              double weight = 1.0) {
    return View(slots).Wait({tenant, weight, priority});
  }

  // After 8 steps, and as many as four slots need for a quantum of service more.
  static constexpr double kTurn = 0.01 * (kMinRunSteps + policy::kQuantumSteps / 4.0);

  CostModel costs_{0.0, false};  // A token costs 1, whatever it attends to.
  std::unique_ptr<QueueLoad> load_;
  std::vector<std::unique_ptr<core::Sequence>> sequences_;
  std::vector<core::Sequence*> running_;
};

TEST_F(QueueLoadTest, NobodyWaitsForAFreeSlotNorBeforeAPaceIsKnown) {
  Start();
  Run("a", 100);
  Queue("a", 1);
  EXPECT_EQ(Wait("a", 3), 0.0);
  EXPECT_GT(Wait("a", 2), 0.0);
  load_ = std::make_unique<QueueLoad>(&costs_, LoadOptions{});
  running_.clear();
  Run("a", 100);
  Queue("a", 100);
  EXPECT_EQ(Wait("a", 1), 0.0);
}

TEST_F(QueueLoadTest, SequencesThatBeganTogetherEndTogether) {
  Start();
  for (int i = 0; i < 4; ++i) Run("a", 100);  // Each of four has a quarter of the machine.
  EXPECT_NEAR(Wait("a", 4), 0.8, 0.03);
  Queue("a", 3);
  EXPECT_NEAR(Wait("a", 4), 0.8, 0.03) << "the fourth to end makes room too";
  Queue("a", 1);
  EXPECT_NEAR(Wait("a", 4), 0.8 + 0.84, 0.05) << "the next batch of four";
  Queue("a", 40);
  EXPECT_NEAR(Wait("a", 4), 0.8 + 11 * 0.84, 0.3);
}

TEST_F(QueueLoadTest, SequencesInStepsEndOneAfterTheOther) {
  Start();
  for (const int tokens : {25, 50, 75, 100}) Run("a", tokens);
  EXPECT_NEAR(Wait("a", 4), 0.2, 0.01);
  Queue("a", 1);
  EXPECT_NEAR(Wait("a", 4), 0.4, 0.02);
  Queue("a", 2);
  EXPECT_NEAR(Wait("a", 4), 0.8, 0.03);
}

TEST_F(QueueLoadTest, AnotherTenantsBacklogDelaysNobodyBelowItsShare) {
  Start();
  for (int i = 0; i < 4; ++i) Run("a", 1000);
  Queue("a", 100);
  EXPECT_GT(Wait("a", 4), 20.0);
  EXPECT_NEAR(Wait("b", 4), 0.01, 0.001) << "the next step: it has no slot";
  Queue("b", 1);
  EXPECT_NEAR(Wait("b", 4), kTurn, 0.005) << "two of the four slots are its own";
  // Two of the four have a slot, the others follow: half of the slots, half of the time.
  Queue("b", 3);
  EXPECT_NEAR(Wait("b", 4), kTurn + 2 * 2 * 0.42, 0.06);
  // With a larger weight it has more of both.
  EXPECT_NEAR(Wait("b", 4, Priority::kMedium, 3.0), kTurn + 3 * 0.21 / 0.75, 0.03);
}

TEST_F(QueueLoadTest, WithoutSharesAllWaitAlike) {
  Start(/*tenants=*/false);
  for (int i = 0; i < 4; ++i) Run("a", 1000);
  Queue("a", 100);
  EXPECT_DOUBLE_EQ(Wait("b", 4), Wait("a", 4));
  EXPECT_GT(Wait("b", 4), 20.0);
}

TEST_F(QueueLoadTest, WithoutPreemptionASlotMustBecomeFree) {
  Start(/*tenants=*/true, /*preempts=*/false);
  for (int i = 0; i < 4; ++i) Run("a", 1000);
  Queue("a", 100);
  EXPECT_NEAR(Wait("b", 4), 4 * 2.0, 0.2);
  Run("a", 10, Priority::kLow);
  EXPECT_GT(Wait("b", 5, Priority::kHigh), 0.0) << "nor does a lower class give way";
}

TEST_F(QueueLoadTest, AHigherClassWaitsForNoLowerOne) {
  Start();
  for (int i = 0; i < 4; ++i) Run("a", 100, Priority::kLow);
  Queue("a", 100, Priority::kLow);
  EXPECT_EQ(Wait("a", 4, Priority::kMedium), 0.0);
  EXPECT_GT(Wait("a", 4, Priority::kLow), 20.0);
}

TEST_F(QueueLoadTest, AClassHasItsPartBesideHigherOnes) {
  Start(/*tenants=*/false, /*preempts=*/true, {0.7, 0.2, 0.1});
  for (int i = 0; i < 9; ++i) Run("a", 100, Priority::kHigh);
  Queue("a", 200, Priority::kHigh);
  // The first slot that is free, and then two of the nine with two ninths of the time.
  EXPECT_NEAR(Wait("a", 9), 9 * 0.2, 0.06);
  Queue("a", 4);
  EXPECT_NEAR(Wait("a", 9), 9 * 0.2 + 2 * 0.42 / (2.0 / 9), 0.2);
  // Strict classes: all of the higher one's work goes first.
  Start(false, true);
  running_.clear();
  for (int i = 0; i < 9; ++i) Run("a", 100, Priority::kHigh);
  Queue("a", 200, Priority::kHigh);
  EXPECT_NEAR(Wait("a", 9), 9 * 0.2 + 22 * 9 * 0.21, 1.0);
}

TEST_F(QueueLoadTest, BookedWorkCountsAsAskedFor) {
  Start();
  for (int i = 0; i < 4; ++i) Run("a", 100);
  LoadView view = View(4);
  const LoadView::Asker asker{"a", 1.0, Priority::kMedium};
  const double alone = view.Wait(asker);
  view.Book("a", 1.0, Priority::kMedium, {8, 8 * 0.21});
  EXPECT_NEAR(view.Wait(asker), alone + 2 * 0.84, 0.06);
  EXPECT_DOUBLE_EQ(view.WaitUnbooked(asker), alone);
  EXPECT_NEAR(view.Wait(asker, {4, 4 * 0.21}), alone + 0.84, 0.06);
  EXPECT_DOUBLE_EQ(view.Wait(asker, {}), alone);
  EXPECT_NEAR(view.LongestWait(Priority::kMedium), alone + 2 * 0.84, 0.06);
  // Of a tenant that has nothing else.
  view.Book("c", 1.0, Priority::kMedium, {40, 40 * 0.21});
  const double of_c = view.Wait({"c", 1.0, Priority::kMedium});
  EXPECT_GT(of_c, 8.0);
  EXPECT_LT(view.Wait({"d", 1.0, Priority::kMedium}), 1.0);
}

TEST_F(QueueLoadTest, TheFirstEndOfATenantsRequests) {
  Start();
  EXPECT_EQ(View(4).SecondsToEnd("a"), 0.0);
  for (const int tokens : {100, 400}) Run("a", tokens);
  for (const int tokens : {10, 20}) Run("b", tokens);
  EXPECT_NEAR(View(4).SecondsToEnd("a"), 4 * 0.2, 0.03);
  EXPECT_NEAR(View(4).SecondsToEnd("b"), 4 * 0.02, 0.01);
  EXPECT_EQ(View(4).SecondsToEnd("c"), 0.0);
  Queue("c", 2);
  EXPECT_NEAR(View(4).SecondsToEnd("c"), 4 * (0.02 + 0.21), 0.05);
}

TEST_F(QueueLoadTest, OutputsArePredictedAsFarAsTheyAreKnown) {
  Start();
  core::CoreRequest request;
  request.prompt.assign(50, 1);
  request.max_tokens = 1000;
  const Work guessed = WorkOf(request);
  EXPECT_DOUBLE_EQ(guessed.prompt, 50.0);
  EXPECT_DOUBLE_EQ(guessed.output, policy::OutputPredictor::kFirstGuess);
  request.spec.params.min_tokens = 400;
  EXPECT_DOUBLE_EQ(WorkOf(request).output, 400.0);
  request.ignore_eos = true;
  EXPECT_DOUBLE_EQ(WorkOf(request).output, 1000.0);
  request.stop_ids = {7};
  EXPECT_DOUBLE_EQ(WorkOf(request).output, 400.0);
  // A length that was prescribed teaches nothing.
  core::Sequence* const prescribed = Make("a", 1, 1000, Priority::kMedium, 1.0);
  prescribed->length = 1001;
  load_->OnFinished(*prescribed);
  request = {};
  request.prompt.assign(50, 1);
  request.max_tokens = 1000;
  EXPECT_DOUBLE_EQ(WorkOf(request).output, policy::OutputPredictor::kFirstGuess);
}

TEST_F(QueueLoadTest, WhatLeavesIsForgotten) {
  Start();
  for (int i = 0; i < 2; ++i) Run("a", 100);
  core::Sequence* const waits = Make("b", 10, 100, Priority::kLow, 1.0);
  load_->Enter(waits);
  EXPECT_EQ(load_->tokens(), 10);
  EXPECT_GT(Wait("b", 2, Priority::kLow), 0.0);
  load_->Leave(waits);
  load_->Remove(*waits);
  EXPECT_EQ(load_->tokens(), 0);
  for (core::Sequence* sequence : running_) load_->Remove(*sequence);
  running_.clear();
  EXPECT_EQ(Wait("b", 2, Priority::kLow), 0.0);
}

// --- What the scheduler does, and what it predicted.

class LoadTest : public SchedulerTest {
 protected:
  void StartLoad(const std::string& policy, int slots, bool strict = false) {
    policy_ = *policy::MakePolicy({.policy = policy, .strict_priority = strict});
    step_options_.learn_cost = true;
    Start(10'000, {.max_num_seqs = slots, .max_num_batched_tokens = 64}, policy_.get());
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
  LoadView View() const {
    LoadView view;
    scheduler_->View(&view);
    return view;
  }
  double Wait(const char* tenant, Priority priority = Priority::kMedium) const {
    return View().Wait({tenant, 1.0, priority});
  }
  double LongestWait() const { return View().LongestWait(Priority::kMedium); }

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
    EXPECT_NEAR(LongestWait(), 8.0, 0.4) << policy;
  }
}

TEST_F(LoadTest, AnotherTenantWaitsForItsTurnAlone) {
  StartLoad("priority+fair", 4);
  for (int i = 0; i < 4; ++i) AddLimited("a", 4, 1000);
  Busy(200);
  EXPECT_NEAR(Wait("a"), 8.0, 0.4);
  const double promised = Wait("b");
  EXPECT_NEAR(promised, 0.01, 0.001) << "the next step";
  EXPECT_NEAR(LongestWait(), 8.0, 0.4) << "the longest of all";
  for (int i = 0; i < 50; ++i) AddLimited("a", 4, 1000);
  EXPECT_NEAR(Wait("b"), promised, 0.01) << "whatever waits of others";
  EXPECT_GT(Wait("a"), 100);
  const base::TimePoint came = now_;
  const core::Sequence* b = AddLimited("b", 4, 8);
  while (!b->running()) Busy(1);
  const double waited = base::ToSeconds(now_ - came);
  EXPECT_NEAR(waited, promised, 0.001);
}

TEST_F(LoadTest, BehindTenantsWithASlotEachItWaitsForAQuantum) {
  StartLoad("priority+fair", 4);
  for (const char* tenant : {"a", "b", "c", "d"}) AddLimited(tenant, 4, 1000);
  Busy(200);
  const double promised = Wait("e");
  EXPECT_NEAR(promised, 0.72, 0.01) << "8 steps and 64";
  const base::TimePoint came = now_;
  const core::Sequence* e = AddLimited("e", 4, 8);
  while (!e->running() && now_ - came < seconds(8)) Busy(1);
  const double waited = base::ToSeconds(now_ - came);
  EXPECT_LE(waited, promised + 0.01);
  EXPECT_GE(waited, 0.8 * promised);
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
  StartLoad("priority+fair", 4, /*strict=*/true);
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
