// Measures the machine's own limits.
#ifndef ROPEWAY_BENCH_KERNELS_PEAK_BENCH_H_
#define ROPEWAY_BENCH_KERNELS_PEAK_BENCH_H_

#include "base/page_arena.h"
#include "base/worker_team.h"
#include "bench/kernels/peaks.h"
#include "bench/timing.h"
#include "ropeway/status.h"

namespace ropeway::bench {

struct Rate {
  double per_second = 0;  // Of all threads together; loops: the best, memory: the median.
  double work = 0;        // Operations or bytes that `timing` is of.
  Timing timing;
};

// All workers of `team` run the loop at once.
Rate MeasureInt8(const PeakLoops& loops, base::WorkerTeam* team, const TimingBudget& budget);
Rate MeasureF32(const PeakLoops& loops, base::WorkerTeam* team, const TimingBudget& budget);

// Memory in large pages that the workers read, each a part of its own.
class MemorySweep {
 public:
  // Takes `bytes` bytes (rounded up). `loops` and `team` must outlive it. kResourceExhausted where
  // there is no such memory.
  static StatusOr<MemorySweep> Make(const PeakLoops& loops, size_t bytes, base::WorkerTeam* team);

  Rate Measure(const TimingBudget& budget) const;

 private:
  MemorySweep(const PeakLoops& loops, size_t part, base::PageArena arena, base::WorkerTeam* team);
  std::byte* PartOf(int worker) const;

  const PeakLoops* loops_;
  size_t part_;  // Bytes of each worker.
  base::PageArena arena_;
  base::WorkerTeam* team_;
};

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_KERNELS_PEAK_BENCH_H_
