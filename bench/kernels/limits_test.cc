#include "bench/kernels/limits.h"

#include <gtest/gtest.h>

namespace ropeway {
namespace {

constexpr Limits kLimits = {.int8_ops = 800e9, .f32_ops = 200e9, .bytes = 40e9};

TEST(LimitsTest, TheLongerOfComputingAndReadingBinds) {
  // 1 s of computing, 0.5 s of reading, done in 2 s.
  const Reached compute = Compare({.int8_ops = 800e9, .bytes = 20e9}, 2, kLimits);
  EXPECT_EQ(compute.bound, Bound::kInt8);
  EXPECT_DOUBLE_EQ(compute.share, 0.5);
  // 0.25 s of computing, 1 s of reading, done in 1.25 s.
  const Reached memory = Compare({.int8_ops = 200e9, .bytes = 40e9}, 1.25, kLimits);
  EXPECT_EQ(memory.bound, Bound::kMemory);
  EXPECT_DOUBLE_EQ(memory.share, 0.8);
}

TEST(LimitsTest, FloatsHaveTheirOwnPeak) {
  const Reached reached = Compare({.f32_ops = 100e9, .bytes = 1e9}, 1, kLimits);
  EXPECT_EQ(reached.bound, Bound::kF32);
  EXPECT_DOUBLE_EQ(reached.share, 0.5);
}

TEST(LimitsTest, BothKindsOfOperationsTakeTheSameUnits) {
  const Reached reached = Compare({.int8_ops = 400e9, .f32_ops = 50e9}, 1, kLimits);
  EXPECT_EQ(reached.bound, Bound::kInt8);
  EXPECT_DOUBLE_EQ(reached.share, 0.75);
}

}  // namespace
}  // namespace ropeway
