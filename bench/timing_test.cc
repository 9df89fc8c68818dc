#include "bench/timing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

namespace ropeway::bench {
namespace {

TEST(TimingTest, SummarizesByTheMedian) {
  const Timing odd = Summarize({3, 1, 9});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.most, 9);
  EXPECT_EQ(odd.repetitions, 3);
  EXPECT_EQ(Summarize({4, 1, 2, 9}).median, 3);
}

TEST(TimingTest, EveryWorkerDoesEveryPhaseOnceAndWaitsForTheOthers) {
  base::WorkerTeam team(3);
  std::atomic<int> calls = 0;
  std::atomic<int> wrong = 0;
  int next[3] = {};
  const Timing timing =
      TimePhases(&team, {.seconds = 0.005, .repetitions = 4}, [&](int worker, int phase) {
        if (phase != next[worker]++) ++wrong;
        // No worker is a phase ahead.
        if (calls.fetch_add(1) / 3 != phase) ++wrong;
      });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(next[0], next[2]);
  EXPECT_GE(timing.repetitions, 3);
  EXPECT_LE(timing.repetitions, 4);
  // How many depends on how busy the machine is; the warm-up's are 1, then 2, then 4 ...
  EXPECT_GE(timing.phases, 1);
  const int warm_up = next[0] - timing.repetitions * timing.phases;
  EXPECT_GT(warm_up, 0);
  EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(warm_up + 1))) << warm_up;
  EXPECT_LE(timing.least, timing.median);
  EXPECT_LE(timing.median, timing.most);
}

TEST(TimingTest, ALongPhaseIsMeasuredThreeTimesAndIsAsLongAsItIs) {
  base::WorkerTeam team(1);
  const Timing timing = TimePhases(&team, {.seconds = 0.001, .repetitions = 9}, [](int, int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  EXPECT_EQ(timing.repetitions, 3);
  EXPECT_EQ(timing.phases, 1);
  EXPECT_GE(timing.least, 0.005);
}

TEST(BarrierTimeTest, TakesTimeAndLeavesTheTeamUsable) {
  base::WorkerTeam team(2);
  EXPECT_GT(BarrierNanoseconds(&team), 0);
  int calls[2] = {};
  team.Run([&](int worker) { ++calls[worker]; });
  EXPECT_EQ(calls[0] + calls[1], 2);
}

TEST(BarrierTimeTest, OneThreadDoesNotWait) {
  EXPECT_LT(BarrierNanoseconds(1), BarrierNanoseconds(2));
}

}  // namespace
}  // namespace ropeway::bench
