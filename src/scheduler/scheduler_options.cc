#include "scheduler/scheduler_options.h"

#include "scheduler/batch_size_control.h"

namespace ropeway::scheduler {

std::optional<Strategy> StrategyOf(const std::string& name) {
  if (name == "continuous") return Strategy::kContinuous;
  if (name == "dynamic") return Strategy::kDynamic;
  if (name == "static") return Strategy::kStatic;
  if (name == "serial") return Strategy::kSerial;
  return std::nullopt;
}

Status CheckSchedulingOptions(const SchedulingOptions& options) {
  if (!StrategyOf(options.strategy)) {
    return InvalidArgument(
        "scheduler must be continuous, dynamic, static or serial, not '" + options.strategy + "'",
        "scheduler");
  }
  for (const auto& [field, time] : {std::pair("static_flush", options.static_flush),
                                    std::pair("target_latency", options.target_latency)}) {
    if (time.count() <= 0) {
      return InvalidArgument(field + std::string(" must be above 0 ms"), field);
    }
  }
  const struct {
    const char* name;
    int value;
    int least;
  } fields[] = {{"max_num_seqs", options.max_num_seqs, 1},
                {"max_num_batched_tokens", options.max_num_batched_tokens, 1},
                {"long_prefill_budget", options.long_prefill_budget, 1},
                {"max_batch_size", options.max_batch_size, 1},
                {"max_prefill_chunk", options.max_prefill_chunk, 0},
                {"long_prefill_threshold", options.long_prefill_threshold, 0}};
  for (const auto& [name, value, least] : fields) {
    if (value >= least) continue;
    return InvalidArgument(std::string(name) + " must be at least " + std::to_string(least) +
                               ", not " + std::to_string(value),
                           name);
  }
  return CheckBatchSize(options.batch_control);
}

}  // namespace ropeway::scheduler
