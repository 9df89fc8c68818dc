#include "gateway/retry_budget.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RetryBudgetTest, ItBeginsFullAndEnds) {
  RetryBudget budget({.part = 0.1, .per_second = 5.0});
  const base::TimePoint now = seconds(100);
  int taken = 0;
  while (budget.Take(now)) ++taken;
  EXPECT_EQ(taken, 10) << "two seconds' worth";
}

TEST(RetryBudgetTest, ATenthOfTheRequestsBringTokens) {
  RetryBudget budget({.part = 0.1, .per_second = 0.001});
  const base::TimePoint now = seconds(1);
  while (budget.Take(now)) {
  }
  for (int i = 0; i < 9; ++i) budget.OnRequest(now);
  EXPECT_FALSE(budget.Take(now));
  // Two: a tenth is not exact in binary.
  budget.OnRequest(now);
  budget.OnRequest(now);
  EXPECT_TRUE(budget.Take(now));
  EXPECT_FALSE(budget.Take(now));
}

TEST(RetryBudgetTest, TimeBringsTokensAndSaysWhen) {
  RetryBudget budget({.part = 0.0, .per_second = 4.0});
  base::TimePoint now = seconds(1);
  while (budget.Take(now)) {
  }
  const base::TimePoint next = budget.NextToken(now);
  EXPECT_GT(next, now);
  EXPECT_LE(next, now + milliseconds(251));
  EXPECT_FALSE(budget.Take(next - milliseconds(2)));
  EXPECT_TRUE(budget.Take(next)) << "the time is exact, or a retry would spin";
}

TEST(RetryBudgetTest, NothingIsSavedUpBeyondItsSize) {
  RetryBudget budget({.part = 1.0, .per_second = 1.0});
  const base::TimePoint now = seconds(3600);
  for (int i = 0; i < 1000; ++i) budget.OnRequest(now);
  EXPECT_EQ(budget.tokens(), budget.most());
  int taken = 0;
  while (budget.Take(now)) ++taken;
  EXPECT_EQ(taken, 4) << "kLeastTokens";
}

}  // namespace
}  // namespace ropeway::gateway
