#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "loadgen/prompt.h"

namespace ropeway::loadgen {
namespace {

TEST(RandomPrompts, AreExactReproducibleAndDistinct) {
  const RandomPrompts prompts(7, true, 0);
  const Prompt one = prompts.Make(1, 0, 90);
  EXPECT_EQ(one.ids.size(), 90U);
  for (const int32_t id : one.ids) {
    EXPECT_GE(id, RandomPrompts::kFirstId);
    EXPECT_LE(id, RandomPrompts::kLastId);
  }
  EXPECT_EQ(one.ids, RandomPrompts(7, true, 0).Make(1, 0, 90).ids);
  EXPECT_NE(one.ids, prompts.Make(1, 1, 90).ids);
  EXPECT_NE(one.ids, prompts.Make(2, 0, 90).ids);
  EXPECT_NE(one.ids, RandomPrompts(8, true, 0).Make(1, 0, 90).ids);
}

TEST(RandomPrompts, TextsLeaveRoomForTheServersOwnTokens) {
  const auto words = [](const std::string& text) {
    return 1 + std::count(text.begin(), text.end(), ' ');
  };
  EXPECT_EQ(words(RandomPrompts(7, false, 0).Make(1, 0, 90).text), 90);
  EXPECT_EQ(words(RandomPrompts(7, false, 31).Make(1, 0, 90).text), 59);
  EXPECT_EQ(words(RandomPrompts(7, false, 31).Make(1, 0, 10).text), 1);
}

TEST(PoissonArrivals, HaveTheRateAndTheSpreadOfAPoissonProcess) {
  const std::vector<double> arrivals = PoissonArrivals(3, 1, 20001, 50);
  ASSERT_EQ(arrivals.size(), 20001U);
  EXPECT_EQ(arrivals[0], 0);
  double sum = 0;
  double squares = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = arrivals[i] - arrivals[i - 1];
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / 20000;
  EXPECT_NEAR(mean, 0.02, 0.0006);  // Four standard errors: 0.02 / sqrt(20000) each.
  // An exponential distribution's deviation equals its mean.
  EXPECT_NEAR(std::sqrt(squares / 20000 - mean * mean) / mean, 1, 0.05);
  EXPECT_EQ(arrivals, PoissonArrivals(3, 1, 20001, 50));
  EXPECT_NE(arrivals, PoissonArrivals(3, 2, 20001, 50));
}

}  // namespace
}  // namespace ropeway::loadgen
