#include "base/shared_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"

namespace ropeway::base {
namespace {

using Hold = SharedBudget::Hold;

// Takes places one by one for `tenant` until it gets no more; returns how many it got.
int64_t TakeAllOf(SharedBudget* budget, const std::string& tenant, std::deque<Hold>* holds) {
  int64_t taken = 0;
  while (true) {
    Hold hold;
    if (!budget->Take(tenant, 1, &hold)) return taken;
    holds->push_back(std::move(hold));
    ++taken;
  }
}

TEST(SharedBudgetTest, OneTenantGetsHalfAndAnotherFindsRoom) {
  SharedBudget budget(1000);
  std::deque<Hold> holds;
  EXPECT_EQ(TakeAllOf(&budget, "greedy", &holds), 500);
  Hold modest;
  EXPECT_TRUE(budget.Take("modest", 200, &modest));
  EXPECT_EQ(budget.used(), 700);
  EXPECT_EQ(budget.held("greedy"), 500);
  EXPECT_EQ(budget.held("modest"), 200);
  EXPECT_EQ(budget.held("nobody"), 0);
  // The greedy one gives back what it has too much of before it gets more.
  Hold more;
  EXPECT_FALSE(budget.Take("greedy", 1, &more));
  holds.resize(300);
  EXPECT_TRUE(budget.Take("greedy", 100, &more));
  EXPECT_FALSE(budget.Take("modest", 201, &holds.emplace_back()));
}

// N greedy tenants get N / (N + 1) together, in whatever order they come.
TEST(SharedBudgetTest, ManyGreedyTenantsLeaveAShare) {
  for (int tenants = 1; tenants <= 9; ++tenants) {
    SharedBudget budget(1000);
    std::deque<Hold> holds;
    for (bool any = true; any;) {
      any = false;
      for (int i = 0; i < tenants; ++i) {
        Hold hold;
        if (!budget.Take(std::to_string(i), 1, &hold)) continue;
        holds.push_back(std::move(hold));
        any = true;
      }
    }
    const int64_t share = 1000 / (tenants + 1);
    EXPECT_NEAR(static_cast<double>(budget.used()), static_cast<double>(share * tenants), tenants)
        << tenants;
    Hold newcomer;
    EXPECT_TRUE(budget.Take("new", share / 2 - 1, &newcomer)) << tenants;
  }
}

TEST(SharedBudgetTest, WhatMustBeKeptIsHeldBeyondTheTotal) {
  SharedBudget budget(100);
  Hold old;
  budget.TakeAnyway("a", 130, &old);
  EXPECT_EQ(budget.used(), 130);
  Hold more;
  EXPECT_FALSE(budget.Take("b", 0, &more));
  old.Resize(40);
  EXPECT_EQ(budget.held("a"), 40);
  ASSERT_TRUE(budget.Take("b", 30, &more));
  more.Resize(90);
  EXPECT_EQ(budget.used(), 130);
  EXPECT_FALSE(old.Grow(1));
  more.Release();
  EXPECT_TRUE(old.Grow(10));
  old.Release();
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(budget.tenants(), 0U);
}

TEST(SharedBudgetTest, AnEmptyBudgetGivesAllToOneHold) {
  SharedBudget budget(1000);
  {
    Hold all;
    EXPECT_FALSE(budget.Take("a", 1001, &all));
    EXPECT_TRUE(budget.Take("a", 1000, &all));
    Hold none;
    EXPECT_FALSE(budget.Take("b", 1, &none));
  }
  // Also by growing, while it is alone.
  Hold first;
  ASSERT_TRUE(budget.Take("a", 0, &first));
  EXPECT_TRUE(first.Grow(900));
  EXPECT_TRUE(first.Grow(100));
  EXPECT_FALSE(first.Grow(1));
  first.Release();
  ASSERT_TRUE(budget.Take("a", 400, &first));
  Hold second;
  ASSERT_TRUE(budget.Take("b", 1, &second));
  EXPECT_TRUE(first.Grow(99));
  EXPECT_FALSE(first.Grow(2)) << "it is not alone any more";
  EXPECT_EQ(first.amount(), 499);
}

TEST(SharedBudgetTest, HoldsGiveBackOnceHoweverTheyEnd) {
  SharedBudget budget(100);
  {
    Hold a;
    ASSERT_TRUE(budget.Take("t", 10, &a));
    Hold b = std::move(a);
    EXPECT_FALSE(a.taken());
    EXPECT_EQ(a.amount(), 0);
    EXPECT_EQ(b.amount(), 10);
    a.Release();
    EXPECT_EQ(budget.used(), 10);
    ASSERT_TRUE(budget.Take("t", 5, &a));
    b = std::move(a);  // Gives back the ten.
    EXPECT_EQ(budget.used(), 5);
    ASSERT_TRUE(b.Grow(1));
    EXPECT_EQ(budget.held("t"), 6);
  }
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(budget.tenants(), 0U) << "who holds nothing takes no memory";
  Hold empty;
  ASSERT_TRUE(budget.Take("t", 0, &empty));
  EXPECT_EQ(budget.tenants(), 1U);
  empty.Release();
  EXPECT_EQ(budget.tenants(), 0U);
}

// The sums are right and the bound holds at every moment, whatever is taken and given back.
TEST(SharedBudgetTest, TheBoundHoldsInAnyOrder) {
  SeededRandom random(14);
  for (int round = 0; round < 50; ++round) {
    const auto total = static_cast<int64_t>(random.Next64() % 200);
    SharedBudget budget(total);
    std::vector<std::pair<int, Hold>> holds;
    std::vector<int64_t> held(4, 0);
    for (int i = 0; i < 400; ++i) {
      const uint64_t draw = random.Next64();
      const int tenant = static_cast<int>(draw % 4);
      const auto amount = static_cast<int64_t>((draw >> 8) % 20);
      const auto used = [&] { return held[0] + held[1] + held[2] + held[3]; };
      if ((draw >> 16) % 3 == 0 && !holds.empty()) {
        const size_t k = (draw >> 24) % holds.size();
        held[static_cast<size_t>(holds[k].first)] -= holds[k].second.amount();
        std::swap(holds[k], holds.back());
        holds.pop_back();
        continue;
      }
      const bool grow = (draw >> 16) % 3 == 1 && !holds.empty();
      const size_t k = grow ? (draw >> 24) % holds.size() : 0;
      const int whose = grow ? holds[k].first : tenant;
      const int64_t own = grow ? holds[k].second.amount() : 0;
      int64_t& mine = held[static_cast<size_t>(whose)];
      const bool fits =
          used() + amount <= total && (used() == own || mine + amount <= total - used() - amount);
      Hold hold;
      const bool took =
          grow ? holds[k].second.Grow(amount) : budget.Take(std::to_string(whose), amount, &hold);
      ASSERT_EQ(took, fits);
      if (took && !grow) holds.emplace_back(whose, std::move(hold));
      if (took) mine += amount;
      ASSERT_EQ(budget.used(), used());
      ASSERT_EQ(budget.held(std::to_string(whose)), mine);
    }
  }
}

TEST(SharedBudgetTest, ThreadsNeverHoldMoreThanTheTotal) {
  SharedBudget budget(100);
  std::atomic<bool> broken{false};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        Hold hold;
        if (budget.Take(std::to_string(t % 2), 1 + i % 30, &hold)) hold.Grow(i % 7);
        if (budget.used() > 100) broken = true;
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(broken);
  EXPECT_EQ(budget.used(), 0);
}

}  // namespace
}  // namespace ropeway::base
