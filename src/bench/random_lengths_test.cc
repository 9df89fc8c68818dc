#include "bench/random_lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ropeway {
namespace {

TEST(DrawLengths, AreLogNormalWithinTheirBounds) {
  const LengthShape shape{.median = 40, .spread = 1, .least = 2, .most = 10000};
  std::vector<int> lengths = DrawLengths(7, 20001, shape);
  std::sort(lengths.begin(), lengths.end());
  EXPECT_GE(lengths.front(), 2);
  EXPECT_NEAR(lengths[10000], 40, 2);
  // A standard deviation above the median: e times as long.
  EXPECT_NEAR(lengths[static_cast<size_t>(20001 * 0.8413)], 40 * std::exp(1), 5);
}

TEST(DrawLengths, WhatIsBeyondABoundIsTheBound) {
  const std::vector<int> lengths =
      DrawLengths(7, 1000, {.median = 40, .spread = 2, .least = 30, .most = 50});
  EXPECT_EQ(*std::min_element(lengths.begin(), lengths.end()), 30);
  EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), 50);
  EXPECT_GT(std::count(lengths.begin(), lengths.end(), 50), 300);
}

TEST(DrawLengths, AreTheSeedsAlone) {
  const LengthShape shape{.median = 40, .spread = 1, .least = 1, .most = 1000};
  EXPECT_EQ(DrawLengths(7, 50, shape), DrawLengths(7, 50, shape));
  EXPECT_NE(DrawLengths(7, 50, shape), DrawLengths(8, 50, shape));
}

}  // namespace
}  // namespace ropeway
