// How many sequences may run at once.
#ifndef ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_
#define ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_

#include <memory>
#include <string>

#include "base/clock.h"
#include "ropeway/status.h"

namespace ropeway {

// Looks at each step and moves a limit, which the scheduler holds when it starts sequences: those
// that run go on when it falls below their number. This interface is also the seam of a controller
// that keeps a target of latency with a fitted model of a step's time, which is not built yet.
//
// Thread rule: the engine thread.
class BatchSizeControl {
 public:
  virtual ~BatchSizeControl() = default;

  // At least 1, at most max_num_seqs.
  virtual int limit() const = 0;

  // A step took so long; `free_share`: of the pool's blocks, those that no sequence holds (free or
  // cached), 0 to 1.
  virtual void OnStep(Duration step, double free_share) = 0;
};

struct BatchSizeOptions {
  std::string name = "fixed";                             // Or "aimd", "memory".
  int max_num_seqs = 1;                                   // At least 1.
  Duration step_target = std::chrono::milliseconds(100);  // For "aimd".
};

// InvalidArgument with field "batch_control" for another name, and with field "step_target" for a
// target that is not above 0, under every control.
StatusOr<std::unique_ptr<BatchSizeControl>> MakeBatchSizeControl(const BatchSizeOptions& options);

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_
