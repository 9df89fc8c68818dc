#include "scheduler/prefill_budget.h"

#include <gtest/gtest.h>

namespace ropeway {
namespace {

constexpr PrefillBudgetOptions kOptions = {.all = 512, .mixed = 32, .long_ones = 64};

TEST(PrefillBudget, AloneAPromptHasTheWholeStep) {
  PrefillBudget budget(kOptions);
  budget.Begin(0);
  EXPECT_EQ(budget.For(true, false), 512);
  EXPECT_EQ(budget.For(false, false), 512);
  EXPECT_EQ(budget.For(false, true), 512);
  budget.Spend(100, true);
  EXPECT_EQ(budget.For(true, false), 412);
  EXPECT_EQ(budget.For(false, true), 412);
}

TEST(PrefillBudget, BesideDecodesOnlyAClassHighHasIt) {
  PrefillBudget budget(kOptions);
  budget.Begin(4);
  EXPECT_EQ(budget.For(true, false), 508);
  EXPECT_EQ(budget.For(false, false), 32);
  EXPECT_EQ(budget.For(false, true), 16);
  budget.Begin(24);
  EXPECT_EQ(budget.For(false, false), 48);
  EXPECT_EQ(budget.For(false, true), 48);
  budget.Spend(10, false);
  EXPECT_EQ(budget.For(false, false), 38);
  // Costly decodes leave an eighth.
  budget.Begin(10'000);
  EXPECT_EQ(budget.For(true, false), 64);
  EXPECT_EQ(budget.For(false, false), 64);
}

TEST(PrefillBudget, WithoutAMixedBudgetAllHaveTheSame) {
  PrefillBudgetOptions options = kOptions;
  options.mixed = 0;
  PrefillBudget budget(options);
  budget.Begin(12);
  EXPECT_EQ(budget.For(false, false), 500);
  EXPECT_EQ(budget.For(false, true), 24);
}

TEST(PrefillBudget, AfterUrgentStepsAllAreHeldShort) {
  PrefillBudget budget(kOptions);
  budget.Begin(20, /*after_urgent=*/true);
  EXPECT_EQ(budget.For(true, false), PrefillBudget::kUrgent);
  EXPECT_EQ(budget.For(false, false), 40);
  budget.Begin(50, /*after_urgent=*/true);
  EXPECT_EQ(budget.For(true, false), 100);
}

TEST(PrefillBudget, AnUrgentStepIsTheFirstPromptsOwn) {
  PrefillBudget budget(kOptions);
  budget.BeginUrgent(4, 100);
  EXPECT_EQ(budget.For(true, false), 100);
  EXPECT_EQ(budget.For(false, false), 0);
  EXPECT_EQ(budget.For(false, true), 0);
  EXPECT_EQ(budget.For(true, true), 100) << "the rest of a long one";
  // Small ones share it.
  budget.BeginUrgent(4, 20);
  budget.Spend(20, false);
  EXPECT_EQ(budget.For(true, false), PrefillBudget::kUrgent - 20);
}

}  // namespace
}  // namespace ropeway
