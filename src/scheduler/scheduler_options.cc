#include "scheduler/scheduler_options.h"

#include <string>

namespace ropeway::scheduler {

Status SchedulerOptions::Validate() const {
  const std::pair<const char*, int> at_least_one[] = {
      {"max_num_seqs", max_num_seqs},
      {"max_num_batched_tokens", max_num_batched_tokens},
      {"long_prefill_budget", long_prefill_budget},
      {"max_batch_size", batching.max_batch_size}};
  for (const auto& [name, value] : at_least_one) {
    if (value < 1) {
      return InvalidArgument(
          std::string(name) + " must be at least 1, not " + std::to_string(value), name);
    }
  }
  const std::pair<const char*, int> not_negative[] = {
      {"max_prefill_chunk", max_prefill_chunk},
      {"mixed_prefill_budget", mixed_prefill_budget},
      {"long_prefill_threshold", long_prefill_threshold},
      {"preempt_max_generated", preempt_max_generated}};
  for (const auto& [name, value] : not_negative) {
    if (value < 0) {
      return InvalidArgument(
          std::string(name) + " must not be negative, but it is " + std::to_string(value), name);
    }
  }
  if (max_wait <= base::Duration{})
    return InvalidArgument("max_wait must be above 0 ms", "max_wait");
  return {};
}

}  // namespace ropeway::scheduler
