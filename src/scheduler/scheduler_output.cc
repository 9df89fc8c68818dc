#include "scheduler/scheduler_output.h"

#include <array>
#include <cstddef>

namespace ropeway::scheduler {

const BlockedByNames& NamesOf(BlockedBy rule) {
  static constexpr std::array<BlockedByNames, kNumBlockedBy> kNames = {{
      {"nothing", "none"},
      {"max_num_seqs", "sequences"},
      {"max_num_batched_tokens", "budget"},
      {"free KV blocks", "blocks"},
      {"a preemption in this step", "preemption"},
      {"another request that computes the same prefix", "prefix"},
      {"the current batch", "batch"},
      {"its class's share", "fairness"},
  }};
  return kNames[static_cast<size_t>(rule)];
}

const char* PreemptReasonName(PreemptReason reason) {
  static constexpr const char* kNames[] = {"memory", "priority", "blocks",
                                           "aging",  "fairness", "length"};
  return kNames[static_cast<size_t>(reason)];
}

void SchedulerOutput::Reserve(size_t slots) {
  items.reserve(slots);
  padding.reserve(slots);
  preempted.reserve(3 * slots);  // For their length, before the decodes, and for their blocks.
  started.reserve(slots);
  fetches.reserve(slots);
}

void SchedulerOutput::Clear() {
  items.clear();
  padding.clear();
  preempted.clear();
  started.clear();
  fetches.clear();
  num_tokens = 0;
  num_prefill_tokens = 0;
  num_padding_tokens = 0;
  short_of_blocks = false;
  positions = decode_cost = 0.0;
  head = nullptr;
  head_blocked_by = BlockedBy::kNothing;
  next_look = base::TimePoint::max();
}

}  // namespace ropeway::scheduler
