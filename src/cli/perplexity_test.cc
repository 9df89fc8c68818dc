#include "cli/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ropeway::cli {
namespace {

TEST(Windows, EachTokenButTheFirstIsCountedOnceWithEnoughBeforeIt) {
  for (const size_t tokens : {2u, 3u, 15u, 16u, 17u, 31u, 32u, 100u}) {
    for (const size_t context : {2u, 8u, 16u}) {
      for (size_t stride = 1; stride < context; ++stride) {
        size_t next = 1;
        const auto windows = MakeWindows(tokens, context, stride);
        for (const Window& window : windows) {
          EXPECT_EQ(window.scored, next);
          EXPECT_LT(window.scored, window.end);
          EXPECT_LE(window.end - window.begin, context);
          if (window.begin > 0) {
            EXPECT_GE(window.scored - window.begin, context - stride);
          }
          next = window.end;
        }
        EXPECT_EQ(next, tokens) << tokens << " " << context << " " << stride;
      }
    }
  }
  EXPECT_TRUE(MakeWindows(0, 8, 4).empty());
  EXPECT_TRUE(MakeWindows(1, 8, 4).empty());
}

TEST(Perplexity, IsExpOfTheMeanNegativeLogProb) {
  Perplexity perplexity;
  for (const double p : {0.5, 0.25, 0.125}) perplexity.Add(std::log(p));
  EXPECT_NEAR(perplexity.value(), 4.0, 1e-12);
  // The log-probs lie ln 2 apart: their sample standard deviation is ln 2.
  EXPECT_NEAR(perplexity.standard_error(), 4.0 * std::log(2.0) / std::sqrt(3.0), 1e-12);
}

TEST(Perplexity, OfOneTokenHasNoError) {
  Perplexity perplexity;
  perplexity.Add(std::log(0.1));
  EXPECT_NEAR(perplexity.value(), 10.0, 1e-12);
  EXPECT_EQ(perplexity.standard_error(), 0.0);
}

}  // namespace
}  // namespace ropeway::cli
