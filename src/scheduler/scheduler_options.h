// What SchedulingOptions mean, and what a Scheduler is set up with besides.
#ifndef ROPEWAY_SCHEDULER_SCHEDULER_OPTIONS_H_
#define ROPEWAY_SCHEDULER_SCHEDULER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/batch.h"
#include "core/device_profile.h"
#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::scheduler {

enum class Strategy { kContinuous, kDynamic, kStatic, kSerial };

// SchedulingOptions::strategy; empty: no such strategy.
std::optional<Strategy> StrategyOf(const std::string& name);

inline bool IsContinuous(const SchedulingOptions& options) {
  return options.strategy == "continuous";
}
// Static batches are padded (StaticPadding).
inline bool IsPadded(const SchedulingOptions& options) {
  return options.strategy == "static" && options.static_padding;
}

// InvalidArgument with the field at fault.
Status CheckSchedulingOptions(const SchedulingOptions& options);

// What no flag sets: it follows from the model, the strategy and the device.
struct StepOptions {
  // Cost of all chunks in a step in which others decode: this, or twice the decodes' cost if that
  // is more and the step is short enough (device.longest_step); 0: no such limit. It does not bind
  // class high.
  int mixed_prefill_budget = 0;
  // A sequence that grows longer is computed anew, with the long factors of RoPE.
  int32_t long_rope_above = core::kNoLongRope;
  // A prompt is computed in one step, whatever that costs, as encoders need it. REQUIRES: each fits
  // max_num_batched_tokens.
  bool whole_prompts = false;
  double attention_weight = 0.0;  // The initial weight of StepCost.
  bool learn_cost = false;        // Learn the weight from the steps' times.
  // For everything else that depends on the device.
  core::DeviceProfile device{};
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_SCHEDULER_OPTIONS_H_
