#include "scheduler/scheduler_options.h"

#include <string>

namespace ropeway::scheduler {

Status SchedulerOptions::Validate() const {
  const struct {
    const char* name;
    int value;
    int least;
  } fields[] = {{"max_num_seqs", max_num_seqs, 1},
                {"max_num_batched_tokens", max_num_batched_tokens, 1},
                {"long_prefill_budget", long_prefill_budget, 1},
                {"max_batch_size", batching.max_batch_size, 1},
                {"max_prefill_chunk", max_prefill_chunk, 0},
                {"mixed_prefill_budget", mixed_prefill_budget, 0},
                {"long_prefill_threshold", long_prefill_threshold, 0},
                {"preempt_max_generated", preempt_max_generated, 0}};
  for (const auto& [name, value, least] : fields) {
    if (value >= least) continue;
    const char* const rule =
        least == 1 ? " must be at least 1, not " : " must not be negative, but it is ";
    return InvalidArgument(name + (rule + std::to_string(value)), name);
  }
  return {};
}

}  // namespace ropeway::scheduler
