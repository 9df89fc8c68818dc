#include "scheduler/cost_model.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ropeway::scheduler {
namespace {

using std::chrono::milliseconds;

class CostModelTest : public testing::Test {
 protected:
  CostModelTest() {
    sequence_.request.id = 7;
    sequence_.spec.params.temperature = 0.8F;
  }

  // A step of so many tokens in one item.
  static SchedulerOutput StepOf(int32_t tokens) {
    SchedulerOutput step;
    step.items.resize(1);
    step.num_tokens = tokens;
    return step;
  }

  core::StepResult ResultOf(base::Duration took, base::Duration sampling) const {
    core::StepResult result;
    result.sampled.resize(1);
    result.sampled[0].sequence = sequence_.id();
    result.sampled[0].took = took;
    result.sampling = sampling;
    return result;
  }

  core::Sequence sequence_;
  core::Sequence* running_[1] = {&sequence_};
  CostModel model_{0.0, true};
};

TEST_F(CostModelTest, KnowsNothingBeforeTheFirstStep) {
  EXPECT_EQ(model_.step_seconds(), 0.0);
  EXPECT_EQ(model_.Sampling(sequence_), 0.0);
  EXPECT_FALSE(model_.OnStep({}, milliseconds(10), {}, running_, 1)) << "it computed nothing";
  EXPECT_EQ(model_.step_seconds(), 0.0);
}

TEST_F(CostModelTest, StepTimesAreSmoothed) {
  model_.OnStep(StepOf(1), milliseconds(160), {}, running_, 8);
  EXPECT_DOUBLE_EQ(model_.step_seconds(), 0.16);
  model_.OnStep(StepOf(1), milliseconds(320), {}, running_, 8);
  EXPECT_DOUBLE_EQ(model_.step_seconds(), 0.17);
}

TEST_F(CostModelTest, ABusyStepTellsItsWorkWithoutSampling) {
  EXPECT_FALSE(model_.OnStep(StepOf(1), milliseconds(50), {}, running_, 8));
  SchedulerOutput step = StepOf(40);
  step.decode_cost = 3;
  const auto busy = model_.OnStep(step, milliseconds(50),
                                  ResultOf(milliseconds(10), milliseconds(10)), running_, 8);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->took, milliseconds(40));
  EXPECT_DOUBLE_EQ(busy->work.prompt, 37);
  EXPECT_DOUBLE_EQ(busy->work.output, 3);
  EXPECT_TRUE(model_.OnStep(StepOf(1), milliseconds(50), {}, running_, 2))
      << "half the slots are taken";
}

TEST_F(CostModelTest, TheDeviceSaysWhenAStepTellsThePace) {
  core::DeviceProfile device;
  device.telling_rows = 128;
  CostModel large(0.0, true, device);
  EXPECT_FALSE(large.OnStep(StepOf(127), milliseconds(50), {}, running_, 8));
  EXPECT_TRUE(large.OnStep(StepOf(128), milliseconds(50), {}, running_, 8));
}

TEST_F(CostModelTest, SamplingCostsItsPartOfTheStepInUnits) {
  // Two workers: 40 ms of theirs are 20 ms of the step, whose other 40 ms compute 40 tokens.
  model_.OnStep(StepOf(40), milliseconds(60), ResultOf(milliseconds(40), milliseconds(20)),
                running_, 8);
  EXPECT_NEAR(model_.Sampling(sequence_), 20, 1e-9);
  EXPECT_EQ(model_.Scoring(sequence_), 0.0) << "it wants no log-probs of its prompt";
}

TEST_F(CostModelTest, ASequenceThatEndedMeanwhileTeachesNothing) {
  model_.OnStep(StepOf(40), milliseconds(60), ResultOf(milliseconds(20), milliseconds(20)), {}, 8);
  EXPECT_EQ(model_.Sampling(sequence_), 0.0);
}

TEST_F(CostModelTest, PaddedStepsAndFixedCostsTeachOnlyTheTime) {
  SchedulerOutput padded = StepOf(40);
  padded.num_padding_tokens = 8;
  EXPECT_FALSE(model_.OnStep(padded, milliseconds(60), {}, running_, 8));
  EXPECT_EQ(model_.step().speed(), 0.0);
  CostModel fixed(0.01, false);
  EXPECT_FALSE(fixed.OnStep(StepOf(40), milliseconds(60), {}, running_, 8));
  EXPECT_EQ(fixed.step().speed(), 0.0);
  EXPECT_EQ(fixed.step().weight(), 0.01);
  EXPECT_DOUBLE_EQ(fixed.step_seconds(), 0.06);
}

}  // namespace
}  // namespace ropeway::scheduler
