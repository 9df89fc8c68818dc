#include "policy/priority_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "policy/test_sequences.h"

namespace ropeway::policy {
namespace {

constexpr std::array<Priority, 3> kClasses = {Priority::kHigh, Priority::kMedium, Priority::kLow};
constexpr ClassLoad kNone{};
constexpr ClassLoad kRuns{true, false};
constexpr ClassLoad kBacklog{true, true};

std::string OrderOf(const ClassShares& shares) {
  std::string order(3, '?');
  for (const Priority p : kClasses) {
    order[static_cast<size_t>(shares.OrderOf(p))] = "hml"[static_cast<int>(p)];
  }
  return order;
}

double Sum(const ClassShares& shares) {
  double sum = 0.0;
  for (const Priority p : kClasses) sum += shares.deficit(p);
  return sum;
}

TEST(ClassSharesTest, AHigherClassLosesItsTurnOnceItIsABurstAhead) {
  ClassShares shares({70, 20, 10}, false);
  int steps = 0;
  shares.BeginStep({kBacklog, kBacklog, kBacklog});
  EXPECT_EQ(OrderOf(shares), "hml");
  for (; OrderOf(shares) == "hml"; ++steps) {
    ASSERT_TRUE(shares.WithinShare(Priority::kHigh));
    ASSERT_LT(steps, 100);
    shares.Charge(Priority::kHigh, 50.0);
    shares.BeginStep({kBacklog, kBacklog, kBacklog});
  }
  EXPECT_EQ(steps, 54) << "each of them takes 0.3 of a step too much, 16 are free";
  EXPECT_EQ(OrderOf(shares), "mlh");
  EXPECT_FALSE(shares.WithinShare(Priority::kHigh));
  EXPECT_TRUE(shares.WithinShare(Priority::kMedium));
  EXPECT_NEAR(shares.deficit(Priority::kMedium), 2 * shares.deficit(Priority::kLow), 1e-6);
  for (steps = 0; OrderOf(shares) == "mlh"; ++steps) {
    shares.Charge(Priority::kMedium, 50.0);
    shares.BeginStep({kBacklog, kBacklog, kBacklog});
    ASSERT_LT(steps, 100);
  }
  EXPECT_EQ(OrderOf(shares), "hml") << "the others had their turn";
}

TEST(ClassSharesTest, AboveTheirSharesTheLeastAboveGoesFirst) {
  ClassShares shares({60, 30, 10}, false);
  shares.BeginStep({kBacklog, kBacklog, kBacklog});
  const auto run = [&shares](int steps, double high, double medium, double low) {
    for (int i = 0; i < steps; ++i) {
      shares.Charge(Priority::kHigh, high);
      shares.Charge(Priority::kMedium, medium);
      shares.Charge(Priority::kLow, low);
      shares.BeginStep({kBacklog, kBacklog, kBacklog});
    }
  };
  run(250, 62.0, 38.0, 0.0);
  EXPECT_NEAR(shares.deficit(Priority::kHigh), -500.0, 1e-6);
  EXPECT_NEAR(shares.deficit(Priority::kMedium), -2000.0, 1e-6);
  EXPECT_EQ(OrderOf(shares), "hlm");
  run(100, 75.0, 30.0, 0.0);  // Entitled to 63 and 31.5.
  EXPECT_NEAR(shares.deficit(Priority::kHigh), -1700.0, 1e-6);
  EXPECT_NEAR(shares.deficit(Priority::kMedium), -1850.0, 1e-6);
  EXPECT_FALSE(shares.WithinShare(Priority::kHigh));
  EXPECT_EQ(OrderOf(shares), "lhm");
  run(20, 70.0, 10.0, 20.0);
  EXPECT_EQ(OrderOf(shares), "mlh") << "medium has paid, high has not";
}

TEST(ClassSharesTest, StrictIsAlwaysTheClassesOrder) {
  ClassShares shares({1, 1, 98}, true);
  for (int i = 0; i < 1000; ++i) {
    shares.BeginStep({kBacklog, kBacklog, kBacklog});
    ASSERT_EQ(OrderOf(shares), "hml");
    ASSERT_TRUE(shares.WithinShare(Priority::kHigh));
    shares.Charge(Priority::kHigh, 50.0);
  }
}

TEST(ClassSharesTest, QuietTimesEarnNoCreditAndCostNone) {
  ClassShares shares({70, 20, 10}, false);
  // High and medium run below their shares without a backlog; low takes the rest.
  for (int i = 0; i < 2000; ++i) {
    shares.BeginStep({kRuns, i % 3 == 0 ? kNone : kRuns, kBacklog});
    shares.Charge(Priority::kHigh, 10.0);
    if (i % 3 != 0) shares.Charge(Priority::kMedium, 5.0);
    shares.Charge(Priority::kLow, 85.0);
    for (const Priority p : kClasses) ASSERT_NEAR(shares.deficit(p), 0.0, 1e-6) << i;
  }
  // Then high floods, and exceeds its share by a burst at most.
  double taken = 0.0;
  shares.BeginStep({kBacklog, kNone, kBacklog});
  while (shares.OrderOf(Priority::kHigh) == 0) {
    shares.Charge(Priority::kHigh, 100.0);
    taken += 100.0;
    shares.BeginStep({kBacklog, kNone, kBacklog});
    ASSERT_LT(taken, 1e5);
  }
  EXPECT_NEAR(taken * 0.125, ClassShares::kBurst * 100.0, 200.0) << "70 of 80 are its own";
}

TEST(ClassSharesTest, ABurstIsForgivenWithTheWorkThatFollows) {
  ClassShares shares({70, 20, 10}, false);
  shares.BeginStep({kBacklog, kNone, kBacklog});
  for (int i = 0; i < 40; ++i) {
    shares.Charge(Priority::kHigh, 100.0);
    shares.BeginStep({kBacklog, kNone, kBacklog});
  }
  const double owed = shares.deficit(Priority::kHigh);
  EXPECT_LT(owed, -400.0);
  for (int i = 0; i < 20; ++i) {  // Now it needs little: the unused part of its share pays.
    shares.BeginStep({kRuns, kNone, kBacklog});
    shares.Charge(Priority::kHigh, 10.0);
    shares.Charge(Priority::kLow, 90.0);
  }
  shares.BeginStep({kRuns, kNone, kBacklog});
  EXPECT_NEAR(shares.deficit(Priority::kHigh), 0.0, 1e-6);
  EXPECT_NEAR(shares.deficit(Priority::kLow), 0.0, 1e-6);
}

TEST(ClassSharesTest, ACreditLapsesWithItsClassAndSoDoesTheDebt) {
  ClassShares shares({70, 20, 10}, false);
  for (int i = 0; i < 30; ++i) {
    shares.BeginStep({kBacklog, kNone, kBacklog});
    shares.Charge(Priority::kLow, 100.0);
  }
  shares.BeginStep({kBacklog, kNone, kBacklog});
  EXPECT_GT(shares.deficit(Priority::kHigh), 2000.0);
  EXPECT_FALSE(shares.WithinShare(Priority::kLow));
  shares.BeginStep({kRuns, kNone, kBacklog});
  EXPECT_EQ(shares.deficit(Priority::kHigh), 0.0);
  EXPECT_EQ(shares.deficit(Priority::kLow), 0.0);
  EXPECT_TRUE(shares.WithinShare(Priority::kLow));
}

TEST(ClassSharesTest, WhatComesDuringAStepWasNotHeldOffInIt) {
  ClassShares shares({70, 20, 10}, false);
  shares.BeginStep({kRuns, kNone, kBacklog});
  shares.Charge(Priority::kHigh, 10.0);
  shares.Charge(Priority::kLow, 90.0);
  shares.BeginStep({kBacklog, kNone, kBacklog});
  EXPECT_EQ(shares.deficit(Priority::kHigh), 0.0);
  shares.Charge(Priority::kHigh, 10.0);
  shares.Charge(Priority::kLow, 90.0);
  shares.BeginStep({kBacklog, kNone, kBacklog});
  EXPECT_NEAR(shares.deficit(Priority::kHigh), 100.0 * 70 / 80 - 10.0, 1e-6);
}

TEST(ClassSharesTest, AClassThatIsHeldOffIsPaidBackWithinLimits) {
  ClassShares shares({70, 20, 10}, false);
  for (int i = 0; i < 1000; ++i) {
    shares.BeginStep({kBacklog, kBacklog, kBacklog});
    shares.Charge(Priority::kLow, 50.0);
  }
  shares.BeginStep({kBacklog, kBacklog, kBacklog});
  EXPECT_NEAR(shares.deficit(Priority::kLow), -128.0 * 50.0, 1e-6);
  EXPECT_NEAR(shares.deficit(Priority::kHigh) + shares.deficit(Priority::kMedium), 128.0 * 50.0,
              1e-6);
}

TEST(ClassSharesTest, DeficitsAddUpToNothingAndAreBounded) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    base::SeededRandom random(seed);
    ClassShares shares({1 + static_cast<int>(random.Below(90)), 5, 4}, false);
    for (int i = 0; i < 3000; ++i) {
      std::array<ClassLoad, 3> loads;
      for (ClassLoad& load : loads) {
        load.active = random.Below(8) > 0;
        load.backlog = load.active && random.Below(3) > 0;
      }
      shares.BeginStep(loads);
      std::vector<int> positions;
      for (const Priority p : kClasses) {
        positions.push_back(shares.OrderOf(p));
        ASSERT_LE(std::abs(shares.deficit(p)), ClassShares::kMaxDeficit * 300.0 + 1e-6);
        const ClassLoad& load = loads[static_cast<size_t>(p)];
        ASSERT_TRUE(load.active || shares.deficit(p) == 0.0);
        ASSERT_TRUE(load.backlog || shares.deficit(p) <= 0.0);
        if (load.active) shares.Charge(p, static_cast<double>(random.Below(100)));
      }
      ASSERT_NEAR(Sum(shares), 0.0, 1e-6);
      std::sort(positions.begin(), positions.end());
      ASSERT_EQ(positions, (std::vector<int>{0, 1, 2}));
    }
  }
}

// Simulates a server of 16 slots where each class always has requests waiting: a step costs each
// running sequence 1 and each start its prompt of 16, at most 4 start in a step, and a class within
// its share preempts a lower one that ran for 8 steps, which resumes later where it stopped. A
// sequence runs for `length` steps, or for a random time of that mean. Returns the cost of each
// class in `steps` steps from step `from` on, in percent.
std::array<double, 3> Backlog(ClassShares* shares, int length, bool random_length, int from,
                              int steps) {
  struct Job {
    size_t priority;
    int left;
    int ran;
  };
  base::SeededRandom random(7);
  std::vector<Job> running;
  std::array<std::vector<Job>, 3> preempted;
  std::array<double, 3> cost{};
  for (int step = 0; step < from + steps; ++step) {
    shares->BeginStep({kBacklog, kBacklog, kBacklog});
    const auto charge = [&](size_t c, double units) {
      shares->Charge(kClasses[c], units);
      if (step >= from) cost[c] += units;
    };
    for (int starts = 0; starts < 4; ++starts) {
      size_t first = 0;
      while (shares->OrderOf(kClasses[first]) != 0) ++first;
      if (running.size() == 16) {
        const auto victim =
            std::max_element(running.begin(), running.end(),
                             [](const Job& a, const Job& b) { return a.priority < b.priority; });
        if (victim->priority <= first || victim->ran < 8 || !shares->WithinShare(kClasses[first])) {
          break;
        }
        preempted[victim->priority].push_back(*victim);
        running.erase(victim);
      }
      if (!preempted[first].empty()) {
        running.push_back(preempted[first].front());
        running.back().ran = 0;
        preempted[first].erase(preempted[first].begin());
        continue;
      }
      const int time = random_length ? static_cast<int>(random.Between(1, 2 * length - 1)) : length;
      running.push_back({first, time, 0});
      charge(first, 16.0);
    }
    for (Job& job : running) {
      charge(job.priority, 1.0);
      ++job.ran;
      --job.left;
    }
    std::erase_if(running, [](const Job& job) { return job.left == 0; });
  }
  const double all = cost[0] + cost[1] + cost[2];
  for (double& c : cost) c *= 100.0 / all;
  return cost;
}

TEST(ClassSharesTest, SharesHoldWithinFivePercentOverThirtySecondsOfBacklog) {
  // 30 seconds are 1,000 steps of 30 ms. Sequences of 1, 2 and 6 seconds, of equal and of random
  // length; windows that begin with the backlog, and later. The first window leaves out
  // sequences of 6 seconds: what high starts before it is above its share runs to its end.
  for (const int length : {32, 64, 200}) {
    for (const bool random_length : {false, true}) {
      for (const int from : {0, 500, 1500, 5000}) {
        if (length == 200 && from == 0) continue;
        for (const std::array<int, 3>& want :
             {std::array<int, 3>{70, 20, 10}, std::array<int, 3>{40, 35, 25}}) {
          ClassShares shares(want, false);
          const auto got = Backlog(&shares, length, random_length, from, 1000);
          for (size_t c = 0; c < 3; ++c) {
            EXPECT_NEAR(got[c], want[c], 5.0)
                << "class " << c << ", length " << length << (random_length ? " random" : "")
                << ", from step " << from;
          }
        }
      }
    }
  }
}

TEST(ClassSharesTest, SharesOfAnAbsentClassGoToTheOthers) {
  ClassShares shares({70, 20, 10}, false);
  double medium = 0.0;
  for (int i = 0; i < 3000; ++i) {
    shares.BeginStep({kNone, kBacklog, kBacklog});
    const bool first = shares.OrderOf(Priority::kMedium) < shares.OrderOf(Priority::kLow);
    shares.Charge(first ? Priority::kMedium : Priority::kLow, 100.0);
    if (first) medium += 1.0;
  }
  EXPECT_NEAR(medium / 3000, 20.0 / 30.0, 0.01);
}

constexpr std::array<int, 3> kShares = {70, 20, 10};

core::Sequence Running(Priority priority, uint64_t order, int32_t prompt_len = 16,
                       int32_t generated = 1) {
  core::Sequence sequence = RunningSequence(order, prompt_len, 1000, generated);
  sequence.request.priority = priority;
  return sequence;
}

core::Sequence Waiting(Priority priority, uint64_t order) {
  core::Sequence sequence = WaitingSequence(order);
  sequence.request.priority = priority;
  return sequence;
}

TEST(PriorityPolicyTest, ClassesGoInOrderUntilOneIsAboveItsShare) {
  PriorityPolicy policy(kShares, false, true);
  core::Sequence high = Running(Priority::kHigh, 0);
  core::Sequence next_high = Waiting(Priority::kHigh, 1);
  core::Sequence medium = Waiting(Priority::kMedium, 2);
  core::Sequence low = Running(Priority::kLow, 3);
  std::vector<core::Sequence*> queue = {&next_high, &medium};
  std::vector<core::Sequence*> running = {&low, &high};
  policy.BeginStep(queue, running, {});
  EXPECT_LT(policy.RankOf(high), policy.RankOf(medium));
  EXPECT_LT(policy.RankOf(medium), policy.RankOf(low));
  EXPECT_EQ(policy.RankOf(high), policy.RankOf(next_high)) << "within a class: by arrival";
  EXPECT_TRUE(policy.MayPreempt(next_high, low));
  for (int i = 0; i < 100; ++i) {
    policy.BeginStep(queue, running, {});
    policy.OnScheduled(high, {.prompt_tokens = 0, .output_tokens = 1, .cost = 100.0});
  }
  const Rank before = policy.RankOf(high);
  policy.OnScheduled(low, {.prompt_tokens = 0, .output_tokens = 1, .cost = 100.0});
  EXPECT_EQ(policy.RankOf(high), before) << "the order holds for a step";
  policy.BeginStep(queue, running, {});
  EXPECT_LT(policy.RankOf(medium), policy.RankOf(next_high));
  EXPECT_FALSE(policy.MayPreempt(next_high, low)) << "it is above its share";
  EXPECT_TRUE(policy.MayPreempt(medium, low));
}

TEST(PriorityPolicyTest, AgedWorkIsChargedToNoClass) {
  PriorityPolicy policy(kShares, false, true);
  core::Sequence high = Running(Priority::kHigh, 0);
  high.sched.aged = true;
  core::Sequence waits = Waiting(Priority::kHigh, 1);
  core::Sequence low = Waiting(Priority::kLow, 2);
  std::vector<core::Sequence*> queue = {&waits, &low};
  std::vector<core::Sequence*> running = {&high};
  for (int i = 0; i < 200; ++i) {
    policy.BeginStep(queue, running, {});
    policy.OnScheduled(high, {.prompt_tokens = 0, .output_tokens = 1, .cost = 100.0});
  }
  policy.BeginStep(queue, running, {});
  EXPECT_EQ(policy.shares().deficit(Priority::kHigh), 0.0);
  EXPECT_LT(policy.RankOf(waits), policy.RankOf(low));
  // An aged sequence gives its class no backlog either.
  waits.sched.aged = true;
  policy.BeginStep(queue, running, {});
  policy.OnScheduled(low, {.prompt_tokens = 16, .output_tokens = 1, .cost = 100.0});
  policy.BeginStep(queue, running, {});
  EXPECT_EQ(policy.shares().deficit(Priority::kHigh), 0.0);
}

TEST(PriorityPolicyTest, AClassThatPrefillsHasABacklog) {
  PriorityPolicy policy(kShares, false, true);
  core::Sequence high = Running(Priority::kHigh, 0);
  core::Sequence low = Waiting(Priority::kLow, 1);
  std::vector<core::Sequence*> queue = {&low};
  std::vector<core::Sequence*> running = {&high};
  for (const auto& [state, held_off] : {std::pair(core::SequenceState::kDecoding, false),
                                        std::pair(core::SequenceState::kPrefilling, true)}) {
    high.state = state;
    for (int i = 0; i < 3; ++i) {
      policy.BeginStep(queue, running, {});
      policy.OnScheduled(low, {.prompt_tokens = 100, .output_tokens = 0, .cost = 100.0});
    }
    policy.BeginStep(queue, running, {});
    EXPECT_EQ(policy.shares().deficit(Priority::kHigh) > 0.0, held_off);
  }
}

TEST(PriorityPolicyTest, OnlyAStrictlyHigherClassPreemptsAndAgedOnesAreNotPreempted) {
  for (const bool strict : {false, true}) {
    PriorityPolicy policy(kShares, strict, true);
    const core::Sequence high = Waiting(Priority::kHigh, 9);
    const core::Sequence medium = Waiting(Priority::kMedium, 8);
    core::Sequence low = Running(Priority::kLow, 0);
    EXPECT_TRUE(policy.MayPreempt(high, medium));
    EXPECT_TRUE(policy.MayPreempt(medium, low));
    EXPECT_FALSE(policy.MayPreempt(medium, high));
    EXPECT_FALSE(policy.MayPreempt(low, medium));
    EXPECT_FALSE(policy.MayPreempt(medium, Running(Priority::kMedium, 20)));
    low.sched.aged = true;
    EXPECT_FALSE(policy.MayPreempt(high, low));
  }
}

TEST(PriorityPolicyTest, TheVictimIsOfTheLowestClassThenLosesLeast) {
  PriorityPolicy keeps(kShares, false, true);
  PriorityPolicy loses(kShares, false, false);
  const core::Sequence high = Running(Priority::kHigh, 9, 16, 1);
  const core::Sequence medium = Running(Priority::kMedium, 8, 16, 1);
  const core::Sequence low_long = Running(Priority::kLow, 1, 500, 5);
  const core::Sequence low_short = Running(Priority::kLow, 2, 20, 90);
  const std::vector<const core::Sequence*> all = {&high, &medium, &low_long, &low_short};
  EXPECT_EQ(keeps.PickVictim(all), 2U) << "nothing is computed again: fewest generated";
  EXPECT_EQ(loses.PickVictim(all), 3U) << "109 positions against 504";
  const core::Sequence twin = Running(Priority::kLow, 5, 20, 90);
  const std::vector<const core::Sequence*> twins = {&high, &low_short, &twin};
  EXPECT_EQ(loses.PickVictim(twins), 2U) << "of equal ones the newest";
  const std::vector<const core::Sequence*> alone = {&high};
  EXPECT_EQ(keeps.PickVictim(alone), 0U);
}

TEST(PriorityPolicyTest, OftenPreemptedOnesArePreemptedOnlyIfAllWere) {
  PriorityPolicy policy(kShares, false, true);
  core::Sequence high = Running(Priority::kHigh, 0, 16, 50);
  core::Sequence medium = Running(Priority::kMedium, 1);
  core::Sequence low = Running(Priority::kLow, 2);
  low.preemptions = kMaxPreemptions;
  const std::vector<const core::Sequence*> all = {&low, &high, &medium};
  EXPECT_EQ(policy.PickVictim(all), 2U);
  medium.preemptions = kMaxPreemptions + 3;
  EXPECT_EQ(policy.PickVictim(all), 0U)
      << "not the one of the highest class, though it was never preempted";
  low.preemptions = kMaxPreemptions - 1;
  medium.preemptions = 0;
  EXPECT_EQ(policy.PickVictim(all), 0U);
  low.preemptions = kMaxPreemptions + 5;
  low.sched.turns_given = 6;
  EXPECT_EQ(policy.PickVictim(all), 0U) << "turns given to other tenants do not count";
}

TEST(PriorityPolicyTest, TheMostWorkOfTheHighestClassIsNeverTheVictim) {
  PriorityPolicy policy(kShares, false, true);
  const core::Sequence old = Running(Priority::kMedium, 0, 16, 200);
  core::Sequence other = Running(Priority::kMedium, 1, 16, 199);
  other.preemptions = kMaxPreemptions;
  for (const std::vector<const core::Sequence*>& both :
       {std::vector<const core::Sequence*>{&old, &other},
        std::vector<const core::Sequence*>{&other, &old}}) {
    EXPECT_EQ(both[policy.PickVictim(both)], &other);
  }
}

}  // namespace
}  // namespace ropeway::policy
