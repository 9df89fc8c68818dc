#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "scheduler/cost_model.h"

namespace ropeway::scheduler {
namespace {

constexpr double kToken = 224e-6;
constexpr double kPosition = 0.32e-6;

// A machine with these costs; `scatter`: the times' relative error at most.
class Machine {
 public:
  Machine(StepCost* cost, double token, double position, double scatter = 0.0)
      : cost_(cost), token_(token), position_(position), scatter_(scatter) {}

  // A chunk of a prompt.
  void Step(int32_t start, int32_t rows, double times = 1.0) {
    const double error = scatter_ * (static_cast<double>(random_.Below(2001)) / 1000.0 - 1.0);
    const double attended = StepCost::Positions(start, rows);
    const double seconds = (token_ * rows + position_ * attended) * (1.0 + error) * times;
    cost_->OnStep(rows, attended, base::Duration(std::llround(seconds * 1e9)));
  }
  void Prompts(int count) {
    for (int i = 0; i < count; ++i) {
      const auto length = static_cast<int32_t>(random_.Between(100, 4000));
      for (int32_t start = 0; start < length; start += 256) Step(start, 256);
    }
  }

 private:
  StepCost* cost_;
  double token_;
  double position_;
  double scatter_;
  base::SeededRandom random_{11};
};

TEST(StepCostTest, CountsTokensAndThePositionsTheyAttendTo) {
  const StepCost cost;
  EXPECT_DOUBLE_EQ(StepCost::Positions(0, 1), 1.0);
  EXPECT_DOUBLE_EQ(StepCost::Positions(10, 3), 11.0 + 12.0 + 13.0);
  EXPECT_DOUBLE_EQ(cost.Cost(0, 0), 0.0);
  EXPECT_DOUBLE_EQ(cost.Cost(10, 3), 3.0 + 36.0 / 700.0);
  EXPECT_NEAR(cost.Cost(0, 300) + cost.Cost(300, 200), cost.Cost(0, 500), 1e-9);
}

TEST(StepCostTest, AChunkIsTheMostThatFits) {
  StepCost cost;
  Machine(&cost, kToken, kPosition * 3).Prompts(10);  // Any other weight.
  base::SeededRandom random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto start = static_cast<int32_t>(random.Below(i % 2 == 0 ? 200 : 200'000));
    const auto wanted = static_cast<int32_t>(random.Below(5000));
    const double budget = static_cast<double>(random.Below(100'000)) / 100.0;
    const int32_t chunk = cost.ChunkFor(start, wanted, budget);
    ASSERT_GE(chunk, 0);
    ASSERT_LE(chunk, wanted);
    ASSERT_TRUE(chunk == 0 || cost.Cost(start, chunk) <= budget);
    ASSERT_TRUE(chunk == wanted || cost.Cost(start, chunk + 1) > budget);
  }
  EXPECT_EQ(cost.ChunkFor(0, 10, -1.0), 0);
  EXPECT_EQ(StepCost(0.0).ChunkFor(0, 100, 50.0, 1.0), 25) << "each costs one more";
  EXPECT_EQ(StepCost(0.0).ChunkFor(0, 100, 1.5, 1.0), 0);
  EXPECT_GT(cost.ChunkFor(0, 512, 512.0), cost.ChunkFor(3500, 512, 512.0));
}

TEST(StepCostTest, LearnsTheWeight) {
  for (const double times : {0.3, 1.0, 4.0}) {
    StepCost cost;
    Machine machine(&cost, kToken, kPosition * times, 0.2);
    machine.Prompts(40);
    const double weight = kPosition * times / kToken;
    EXPECT_NEAR(cost.weight(), weight, 0.15 * weight + 0.0001) << times;
  }
}

TEST(StepCostTest, FollowsAnotherMachine) {
  StepCost cost;
  Machine(&cost, kToken, kPosition).Prompts(30);
  EXPECT_NEAR(cost.weight(), kPosition / kToken, 1e-5);
  Machine(&cost, 10 * kToken, 30 * kPosition).Prompts(30);
  EXPECT_NEAR(cost.weight(), 3 * kPosition / kToken, 3e-5);
}

TEST(StepCostTest, StepsThatAreAlikeOrSmallChangeNothing) {
  StepCost cost;
  Machine machine(&cost, kToken, 20 * kPosition, 0.3);
  for (int i = 0; i < 500; ++i) machine.Step(0, 64);      // Short prompts.
  for (int i = 0; i < 500; ++i) machine.Step(i * 8, 16);  // As decodes: few rows.
  EXPECT_EQ(cost.weight(), core::DeviceProfile{}.attention_weight);
  EXPECT_EQ(cost.ChunkFor(100, 0, 1e9), 0);
}

TEST(StepCostTest, OutliersChangeNothing) {
  StepCost cost;
  Machine machine(&cost, kToken, kPosition);
  machine.Step(0, 256, 100.0);  // Already the first one.
  for (int i = 0; i < 40; ++i) {
    machine.Prompts(1);
    if (i >= 4) machine.Step(3000, 256, 100.0);
  }
  EXPECT_NEAR(cost.weight(), kPosition / kToken, 1e-5);
}

TEST(StepCostTest, TheWeightStaysInItsBounds) {
  StepCost steep;
  Machine(&steep, kToken, kToken).Prompts(20);
  EXPECT_EQ(steep.weight(), StepCost::kMaxWeight);
  StepCost flat;
  for (int i = 0; i < 200; ++i) {  // The longer, the faster: no cost of positions.
    const int32_t start = i % 16 * 256;
    flat.OnStep(256, StepCost::Positions(start, 256), std::chrono::milliseconds(60 - i % 16));
  }
  EXPECT_EQ(flat.weight(), 0.0);
  EXPECT_EQ(flat.ChunkFor(4000, 500, 300.0), 300);
  flat.OnStep(0, 0.0, std::chrono::seconds(1));
  flat.OnStep(10, 10.0, base::Duration(0));
  EXPECT_EQ(flat.weight(), 0.0);
}

TEST(StepCostTest, SpeedIsCostPerBusySecond) {
  StepCost cost;
  EXPECT_EQ(cost.speed(), 0.0);
  const auto run = [&cost](int steps, double units_per_second) {
    for (int i = 0; i < steps; ++i) {
      cost.OnStep(100, 0.0, base::Duration(std::llround(100.0 / units_per_second * 1e9)));
    }
  };
  run(1, 4000.0);
  EXPECT_NEAR(cost.speed(), 4000.0, 1.0);
  run(200, 2000.0);  // 10 seconds.
  EXPECT_NEAR(cost.speed(), 2000.0, 10.0);
  run(1, 20.0);  // 5 seconds of nothing: the machine slept.
  EXPECT_NEAR(cost.speed(), 2000.0, 10.0);
  run(400, 8000.0);  // 5 seconds: less than half is forgotten.
  EXPECT_GT(cost.speed(), 3500.0);
  EXPECT_LT(cost.speed(), 5500.0);
  run(2400, 8000.0);  // 30 more.
  EXPECT_NEAR(cost.speed(), 8000.0, 400.0);
  run(20, 50.0);  // It stays so slow.
  EXPECT_NEAR(cost.speed(), 50.0, 1.0);
}

TEST(StepCostTest, TheDeviceSaysHowMuchSlowerALoneDecodeMayBe) {
  core::DeviceProfile device;
  device.speed_range = 1000;
  StepCost cpu(0.0);
  StepCost gpu(0.0, device);
  for (StepCost* const cost : {&cpu, &gpu}) {
    cost->OnStep(1024, 0.0, std::chrono::milliseconds(10));
    cost->OnStep(1, 0.0, std::chrono::milliseconds(5));  // 512 times slower.
  }
  EXPECT_DOUBLE_EQ(cpu.speed(), 102'400) << "a stall";
  EXPECT_NEAR(gpu.speed(), 1025 / 0.015, 100);
}

}  // namespace
}  // namespace ropeway::scheduler
