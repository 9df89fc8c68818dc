#include "bench/timing.h"

#include <algorithm>
#include <chrono>

namespace ropeway::bench {
namespace {

constexpr int kLeastRepetitions = 3;
// The first phases: pages are touched, clocks and branch predictors settle.
constexpr double kWarmUpShare = 0.1;
constexpr int kMostPhases = 1 << 20;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Timing Summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  Timing timing;
  const size_t middle = seconds.size() / 2;
  timing.median =
      seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  timing.least = seconds.front();
  timing.most = seconds.back();
  timing.repetitions = static_cast<int>(seconds.size());
  return timing;
}

Timing TimePhases(base::WorkerTeam* team, const TimingBudget& budget,
                  const std::function<void(int worker, int phase)>& work) {
  int next = 0;
  // Seconds of one phase, the mean of `phases`.
  const auto repeat = [&](int phases) {
    double seconds = 0;
    team->Run([&](int worker) {
      team->Barrier();  // All are awake.
      const double begin = Now();
      for (int i = 0; i < phases; ++i) {
        work(worker, next + i);
        team->Barrier();
      }
      if (worker == 0) seconds = Now() - begin;
    });
    next += phases;
    return seconds / phases;
  };

  const double begin = Now();
  int warm_up = 1;
  double one = repeat(warm_up);
  while (Now() - begin < budget.seconds * kWarmUpShare && warm_up < kMostPhases) {
    warm_up *= 2;
    one = repeat(warm_up);
  }
  const double per_repetition = budget.seconds / budget.repetitions;
  const int phases = static_cast<int>(std::clamp(per_repetition / one, 1.0, double{kMostPhases}));
  std::vector<double> seconds;
  const double start = Now();
  for (int i = 0; i < budget.repetitions; ++i) {
    if (i >= kLeastRepetitions && Now() - start > budget.seconds) break;
    seconds.push_back(repeat(phases));
  }
  Timing timing = Summarize(std::move(seconds));
  timing.phases = phases;
  return timing;
}

double BarrierNanoseconds(base::WorkerTeam* team) {
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
  base::WorkerTeam team(threads);
  return BarrierNanoseconds(&team);
}

}  // namespace ropeway::bench
