#include "scheduler/scheduler_output.h"

namespace ropeway::scheduler {

const char* BlockedByName(BlockedBy rule) {
  switch (rule) {
    case BlockedBy::kNothing:
      return "nothing";
    case BlockedBy::kSlots:
      return "max_num_seqs";
    case BlockedBy::kTokens:
      return "max_num_batched_tokens";
    case BlockedBy::kBlocks:
      return "free KV blocks";
    case BlockedBy::kPreemption:
      return "a preemption in this step";
    case BlockedBy::kLeader:
      return "another request that computes the same prefix";
    case BlockedBy::kBatch:
      return "the batch that fills or runs";
    case BlockedBy::kFairness:
      return "its class's share";
  }
  return "unknown";
}

const char* PreemptReasonName(PreemptReason reason) {
  switch (reason) {
    case PreemptReason::kMemory:
      return "memory";
    case PreemptReason::kPriority:
      return "priority";
    case PreemptReason::kBlocks:
      return "blocks";
    case PreemptReason::kAging:
      return "aging";
  }
  return "unknown";
}

void SchedulerOutput::Reserve(size_t slots) {
  items.reserve(slots);
  padding.reserve(slots);
  preempted.reserve(2 * slots);  // Before the decodes, and for their blocks.
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
  head = nullptr;
  head_blocked_by = BlockedBy::kNothing;
  next_look = base::TimePoint::max();
}

}  // namespace ropeway::scheduler
