// Times phases of work as the executor runs them: by a team, with a barrier after each.
#ifndef ROPEWAY_BENCH_TIMING_H_
#define ROPEWAY_BENCH_TIMING_H_

#include <functional>
#include <vector>

#include "base/worker_team.h"

namespace ropeway::bench {

// Seconds of one phase: of several repetitions, each the mean of some phases on end.
struct Timing {
  double median = 0;
  double least = 0;
  double most = 0;
  int repetitions = 0;
  int phases = 0;  // Of one repetition.
};

// What a measured piece of code has to do. A multiply-add is two operations.
struct Work {
  double int8_ops = 0;
  double f32_ops = 0;
  double bytes = 0;  // That come from memory at least once.
};

// REQUIRES: seconds not empty.
Timing Summarize(std::vector<double> seconds);

// How long to measure.
struct TimingBudget {
  double seconds = 0.2;  // About, for all repetitions.
  int repetitions = 9;   // At most; at least 3, however long they take.
};

// Calls work(worker, i) on every worker for i = 0, 1, 2, ..., with a barrier after each, and times
// it, barrier included. The first phases are not counted. REQUIRES: work does not throw.
Timing TimePhases(base::WorkerTeam* team, const TimingBudget& budget,
                  const std::function<void(int worker, int phase)>& work);

// Nanoseconds of one barrier of the idle team: the best of five runs, a few milliseconds in all. It
// shows where the host placed the virtual cores (on one cache or on two), which changes other
// timings by 10 to 20 %: timings are comparable only if this one agrees.
double BarrierNanoseconds(base::WorkerTeam* team);

// The same for a new team. REQUIRES: threads >= 1. Throws as base::WorkerTeam does.
double BarrierNanoseconds(int threads);

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_TIMING_H_
