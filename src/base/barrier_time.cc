#include "base/barrier_time.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/worker_team.h"

namespace ropeway {

double BarrierNanoseconds(WorkerTeam* team) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 5000;
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < 5; ++repeat) {
    const Clock::time_point begin = Clock::now();
    team->Run([&](int) {
      for (int i = 0; i < kRounds; ++i) team->Barrier();
    });
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    best = std::min(best, time.count() / kRounds);
  }
  return best;
}

double BarrierNanoseconds(int threads) {
  WorkerTeam team(threads);
  return BarrierNanoseconds(&team);
}

}  // namespace ropeway
