// Timing an executor's steps on synthetic batches: what the benchmarks of steps share.
#ifndef ROPEWAY_BENCH_STEP_TIMER_H_
#define ROPEWAY_BENCH_STEP_TIMER_H_

#include <vector>

#include "core/batch.h"
#include "executor/cpu_executor.h"

namespace ropeway {

// Seconds of the monotonic clock.
double MonotonicSeconds();

// What one step computes.
struct StepShape {
  int sequences;
  int tokens;   // Of each, per step: 1 is a decode.
  int context;  // Positions before.

  int blocks() const { return sequences * ((context + tokens + kBlockTokens - 1) / kBlockTokens); }
};

// Steps of one executor, which must outlive it.
class StepTimer {
 public:
  StepTimer(CpuExecutor* executor, const KvLayout& layout, int vocab_size)
      : executor_(executor), layout_(layout), vocab_size_(vocab_size) {}

  // Writes keys and values into the whole pool: memory that nobody wrote is one page of zeros,
  // which the processor's cache holds, and a step would look faster than it is.
  void FillPool();

  // Random tokens; blocks of one sequence do not lie together, as in a pool that has been used for
  // a while. REQUIRES: the pool has the shape's blocks.
  Batch MakeBatch(const StepShape& shape) const;

  // Seconds of one step. A failed one is said on standard error.
  double Step(const Batch& batch);

  // Times of the steps that fit in `seconds`, at least one, after one that is not counted; sorted.
  std::vector<double> Measure(const StepShape& shape, double seconds);

 private:
  CpuExecutor* const executor_;
  const KvLayout layout_;
  const int vocab_size_;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_STEP_TIMER_H_
