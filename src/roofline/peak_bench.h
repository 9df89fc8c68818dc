// Measures the machine's own limits.
#ifndef ROPEWAY_ROOFLINE_PEAK_BENCH_H_
#define ROPEWAY_ROOFLINE_PEAK_BENCH_H_

#include "base/worker_team.h"
#include "kernels/peaks.h"
#include "model/weight_arena.h"
#include "roofline/timing.h"
#include "ropeway/status.h"

namespace ropeway {

struct Rate {
  double per_second = 0;  // Of all threads together; the median.
  double work = 0;        // Operations or bytes that `timing` is of.
  Timing timing;
};

// All workers of `team` run the loop at once.
Rate MeasureInt8(const PeakLoops& loops, WorkerTeam* team, const TimingBudget& budget);
Rate MeasureF32(const PeakLoops& loops, WorkerTeam* team, const TimingBudget& budget);

// The workers read `bytes` bytes (rounded up) of memory in large pages, each a part of its own.
// kResourceExhausted where there is no such memory.
StatusOr<Rate> MeasureSweep(const PeakLoops& loops, size_t bytes, WorkerTeam* team,
                            const TimingBudget& budget);

}  // namespace ropeway

#endif  // ROPEWAY_ROOFLINE_PEAK_BENCH_H_
