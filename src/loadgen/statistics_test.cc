#include <gtest/gtest.h>

#include "loadgen/summary.h"

namespace ropeway::loadgen {
namespace {

TEST(Statistics, QuantilesLieBetweenNeighbours) {
  const std::vector<double> four = {10, 20, 40, 80};
  EXPECT_DOUBLE_EQ(Quantile(four, 0), 10);
  EXPECT_DOUBLE_EQ(Quantile(four, 0.5), 30);  // h = 1.5
  EXPECT_DOUBLE_EQ(Quantile(four, 0.9), 68);  // h = 2.7: 40 + 0.7 * 40
  EXPECT_DOUBLE_EQ(Quantile(four, 1), 80);
  EXPECT_DOUBLE_EQ(Quantile({7}, 0.99), 7);
}

TEST(Statistics, DescribesUnsortedValues) {
  // 1..101 in a mixed order: h = 100 p, so each quantile is a value.
  std::vector<double> values;
  for (int i = 0; i < 101; ++i) values.push_back((i * 37) % 101 + 1);
  const Distribution d = Describe(values);
  EXPECT_EQ(d.count, 101U);
  EXPECT_DOUBLE_EQ(d.mean, 51);
  EXPECT_DOUBLE_EQ(d.min, 1);
  EXPECT_DOUBLE_EQ(d.p50, 51);
  EXPECT_DOUBLE_EQ(d.p90, 91);
  EXPECT_DOUBLE_EQ(d.p99, 100);
  EXPECT_DOUBLE_EQ(d.max, 101);
}

TEST(Statistics, NothingIsAllZero) {
  const Distribution d = Describe({});
  EXPECT_EQ(d.count, 0U);
  EXPECT_EQ(d.mean, 0);
  EXPECT_EQ(d.p99, 0);
}

}  // namespace
}  // namespace ropeway::loadgen
