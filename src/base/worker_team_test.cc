#include "base/worker_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ropeway::base {
namespace {

TEST(WorkerTeamTest, EachWorkerRunsOnceOnItsOwnThread) {
  for (int size : {1, 2, 3, 5}) {
    WorkerTeam team(size);
    EXPECT_EQ(team.size(), size);
    std::vector<int> calls(static_cast<size_t>(size));
    std::vector<std::thread::id> ids(static_cast<size_t>(size));
    for (int run = 0; run < 3; ++run) {
      team.Run([&](int worker) {
        ++calls[static_cast<size_t>(worker)];
        ids[static_cast<size_t>(worker)] = std::this_thread::get_id();
      });
    }
    for (int worker = 0; worker < size; ++worker) {
      EXPECT_EQ(calls[static_cast<size_t>(worker)], 3);
      EXPECT_EQ(ids[static_cast<size_t>(worker)] == std::this_thread::get_id(), worker == 0);
    }
  }
}

// Each phase reads what all others wrote in the one before, without atomics: a wrong order is a
// wrong sum here, and a report under tsan.
TEST(WorkerTeamTest, BarrierSeparatesPhases) {
  constexpr int kPhases = 2000;
  for (int size : {1, 2, 3}) {
    WorkerTeam team(size);
    std::vector<int64_t> from(static_cast<size_t>(size) * 16, 1);
    std::vector<int64_t> to(from.size());
    team.Run([&](int worker) {
      for (int phase = 0; phase < kPhases; ++phase) {
        const auto& source = phase % 2 == 0 ? from : to;
        auto& target = phase % 2 == 0 ? to : from;
        int64_t sum = worker;
        for (int w = 0; w < size; ++w) sum += source[static_cast<size_t>(w) * 16];
        target[static_cast<size_t>(worker) * 16] = sum % 1000003;
        team.Barrier();
      }
    });
    std::vector<int64_t> expected(static_cast<size_t>(size), 1);
    for (int phase = 0; phase < kPhases; ++phase) {
      int64_t sum = 0;
      for (int64_t v : expected) sum += v;
      for (int w = 0; w < size; ++w) expected[static_cast<size_t>(w)] = (sum + w) % 1000003;
    }
    for (int w = 0; w < size; ++w) {
      EXPECT_EQ(from[static_cast<size_t>(w) * 16], expected[static_cast<size_t>(w)]);
    }
  }
}

// Far more threads than cores, and workers of very different speed: everyone has to sleep
// sometimes.
TEST(WorkerTeamTest, OversubscribedTeamMakesProgress) {
  WorkerTeam team(8);
  std::atomic<int> total{0};
  for (int run = 0; run < 20; ++run) {
    team.Run([&](int worker) {
      for (int phase = 0; phase < 5; ++phase) {
        if (worker == phase) std::this_thread::sleep_for(std::chrono::microseconds(300));
        total.fetch_add(1, std::memory_order_relaxed);
        team.Barrier();
      }
    });
    if (run % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(total.load(), 8 * 20 * 5);
}

TEST(WorkerTeamTest, IdleTeamUsesNoCpu) {
  WorkerTeam team(4);
  team.Run([](int) {});
  // A worker that spins does so all the time; on a busy machine one may go to sleep late.
  double least = 1;
  for (int window = 0; window < 5 && least > 0.05; ++window) {
    const std::clock_t cpu = std::clock();  // Of all threads.
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    const double used = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    least = std::min(least, used / wall.count());
  }
  EXPECT_LT(least, 0.1);
}

#if defined(__x86_64__)
TEST(WorkerTeamTest, FloatControlIsTheDefaultInEveryRun) {
  WorkerTeam team(2);
  std::vector<unsigned> seen(2);
  team.Run([&](int) { _mm_setcsr(_mm_getcsr() | 0x8040); });  // Flush denormals to zero.
  team.Run([&](int worker) { seen[static_cast<size_t>(worker)] = _mm_getcsr(); });
  EXPECT_EQ(seen[0], 0x1F80U);
  EXPECT_EQ(seen[1], 0x1F80U);
}
#endif

TEST(WorkerTeamTest, ManyTeamsStartAndStop) {
  for (int i = 0; i < 200; ++i) {
    WorkerTeam team(1 + i % 4);
    if (i % 2 == 0) {
      int sum = 0;
      team.Run([&](int worker) {
        if (worker == 0) sum = 1;
      });
      ASSERT_EQ(sum, 1);
    }
  }
}

}  // namespace

}  // namespace ropeway::base
