#include "base/barrier_time.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/worker_team.h"

namespace ropeway {

double BarrierNanoseconds(int threads) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 20000;
  WorkerTeam team(threads);
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < 5; ++repeat) {
    const Clock::time_point begin = Clock::now();
    team.Run([&](int) {
      for (int i = 0; i < kRounds; ++i) team.Barrier();
    });
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    best = std::min(best, time.count() / kRounds);
  }
  return best;
}

}  // namespace ropeway
