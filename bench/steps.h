// Times an executor's steps on synthetic batches.
#ifndef ROPEWAY_BENCH_STEPS_H_
#define ROPEWAY_BENCH_STEPS_H_

#include <vector>

#include "bench/timing.h"
#include "core/batch.h"
#include "executor/cpu_executor.h"

namespace ropeway::bench {

// The work of one step.
struct StepShape {
  int sequences;
  int tokens;   // Of each, per step: 1 is a decode.
  int context;  // Positions before.

  // In each group of layers (executor::KvLayout).
  int blocks() const {
    return sequences * ((context + tokens + base::kBlockTokens - 1) / base::kBlockTokens);
  }
};

// Runs steps on one executor, which must outlive it. Thread rule: one thread at a time.
class StepTimer {
 public:
  StepTimer(executor::CpuExecutor* executor, const executor::KvLayout& layout, int vocab_size)
      : executor_(executor), layout_(layout), vocab_size_(vocab_size) {}

  // Writes keys and values into the whole pool: untouched memory is one page of zeros in
  // the processor's cache, and steps would look faster than they are.
  void FillPool();

  // Times the steps that fit in `seconds`, at least one, after one that is not counted.
  Timing Measure(const StepShape& shape, double seconds);

 private:
  // Random tokens; blocks of one sequence do not lie together, as in a pool that has been used for
  // a while. Valid until the next call. REQUIRES: the pool has the shape's blocks.
  core::Batch MakeBatch(const StepShape& shape);
  // Seconds of one step. A failure is printed to standard error.
  double Step(const core::Batch& batch);

  executor::CpuExecutor* const executor_;
  const executor::KvLayout layout_;
  const int vocab_size_;
  std::vector<TokenId> tokens_;        // All items', in the batch.
  std::vector<core::BlockId> blocks_;  // All items' blocks.
};

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_STEPS_H_
