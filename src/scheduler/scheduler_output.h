// What the scheduler decides about one step: plain values.
#ifndef ROPEWAY_SCHEDULER_SCHEDULER_OUTPUT_H_
#define ROPEWAY_SCHEDULER_SCHEDULER_OUTPUT_H_

#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "core/sequence.h"

namespace ropeway::scheduler {

// A part of the step: positions [start, start + num_tokens) of one sequence.
struct ScheduledItem {
  core::Sequence* sequence = nullptr;
  int32_t start = 0;
  int32_t num_tokens = 0;
  bool sample = false;  // The last id is part of it, and its successor is sampled.
};

// Rows of a padded static batch that belong to no sequence, at positions
// [start, start + num_tokens).
struct PaddingItem {
  int32_t start = 0;
  int32_t num_tokens = 0;
  bool sample = false;
};

// The rule that keeps the first sequence of the queue from starting.
enum class BlockedBy {
  kNothing,
  kSlots,
  kTokens,
  kBlocks,
  kPreemption,
  kLeader,   // Another sequence computes the prefix that it needs.
  kBatch,    // Its batch fills, or the one before runs.
  kFairness  // Lower classes run, and its own class is above its share.
};
inline constexpr int kNumBlockedBy = 8;
struct BlockedByNames {
  const char* text;   // In a sentence: the request waits for ...
  const char* label;  // The label of a metric.
};
const BlockedByNames& NamesOf(BlockedBy rule);

enum class PreemptReason {
  kMemory,    // A running sequence's next token had no block.
  kPriority,  // A higher class needed its slot.
  kBlocks,    // A higher class needed its blocks.
  kAging,     // A request past max_wait needed its slot or blocks.
  kFairness,  // A tenant below its share needed its slot or blocks.
  kLength,    // It grew beyond the length up to which the short factors of RoPE hold.
};
inline constexpr int kNumPreemptReasons = 6;
const char* PreemptReasonName(PreemptReason reason);

// One step. Block tables already cover it.
struct SchedulerOutput {
  std::vector<ScheduledItem> items;  // Decodes first, then prefill chunks; each in rank order.
  std::vector<PaddingItem> padding;
  struct Preempted {
    core::Sequence* sequence = nullptr;
    PreemptReason reason = PreemptReason::kMemory;
  };
  std::vector<Preempted> preempted;      // In the order of preemption.
  std::vector<core::Sequence*> started;  // For the first time, not resumed.
  // A sequence that fetches from now on: its blocks from computed / kBlockTokens on, as many as
  // `blocks`, and then the parked tail are to be read from the tier.
  struct Fetch {
    core::Sequence* sequence = nullptr;
    int32_t blocks = 0;
    bool tail = false;
  };
  std::vector<Fetch> fetches;
  int32_t num_tokens = 0;          // Tokens of the items.
  int32_t num_prefill_tokens = 0;  // Tokens of prefill chunks.
  int32_t num_padding_tokens = 0;
  bool short_of_blocks = false;    // Some sequence was preempted for another one's next block.
  double positions = 0.0;          // That the items attend to.
  double decode_cost = 0.0;        // The decodes' part of the cost (StepCost); 0: there are none.
  core::Sequence* head = nullptr;  // The first of the queue that did not start; null: none waits.
  BlockedBy head_blocked_by = BlockedBy::kNothing;
  // If nothing computes because a batch fills: when that may change without another event.
  base::TimePoint next_look = base::TimePoint::max();

  void Reserve(size_t slots);
  void Clear();
  int32_t num_rows() const { return num_tokens + num_padding_tokens; }
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_SCHEDULER_OUTPUT_H_
