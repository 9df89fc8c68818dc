#include "scheduler/batch_size_control.h"

#include "scheduler/aimd_batch_size.h"
#include "scheduler/fixed_batch_size.h"
#include "scheduler/memory_batch_size.h"

namespace ropeway {

StatusOr<std::unique_ptr<BatchSizeControl>> MakeBatchSizeControl(const BatchSizeOptions& options) {
  if (options.step_target <= Duration(0)) {
    const auto given =
        std::chrono::duration_cast<std::chrono::milliseconds>(options.step_target).count();
    return InvalidArgument(
        "step_target " + std::to_string(given) + "ms: expected a time above 0, such as 100ms",
        "step_target");
  }
  std::unique_ptr<BatchSizeControl> control;
  if (options.name == "fixed") control = std::make_unique<FixedBatchSize>(options.max_num_seqs);
  if (options.name == "aimd")
    control = std::make_unique<AimdBatchSize>(options.max_num_seqs, options.step_target);
  if (options.name == "memory") control = std::make_unique<MemoryBatchSize>(options.max_num_seqs);
  if (control == nullptr) {
    return InvalidArgument(
        "batch_control \"" + options.name + "\" is unknown: expected fixed, aimd or memory",
        "batch_control");
  }
  return control;
}

}  // namespace ropeway
