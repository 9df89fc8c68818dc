#include "base/barrier_time.h"

#include <algorithm>
#include <chrono>

#include "base/worker_team.h"

namespace ropeway {

double BarrierNanoseconds(WorkerTeam* team) {
  using Clock = std::chrono::steady_clock;
  const auto mean_of = [team](int rounds) {
    const Clock::time_point begin = Clock::now();
    team->Run([&](int) {
      for (int i = 0; i < rounds; ++i) team->Barrier();
    });
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    return time.count() / rounds;
  };
  // With more threads than cores each barrier waits for the scheduler: few runs suffice.
  constexpr double kScheduled = 5000;
  // Another process may disturb one run, hardly three in a row.
  double best = std::min({mean_of(100), mean_of(100), mean_of(100)});
  for (int run = 0; run < 5 && best < kScheduled; ++run) best = std::min(best, mean_of(2000));
  return best;
}

double BarrierNanoseconds(int threads) {
  WorkerTeam team(threads);
  return BarrierNanoseconds(&team);
}

}  // namespace ropeway
