// What one step does, as the scheduler plans it: plain values.
#ifndef ROPEWAY_SCHEDULER_SCHEDULE_H_
#define ROPEWAY_SCHEDULER_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "core/sequence.h"

namespace ropeway {

// A part of the step: positions [start, start + num_tokens) of one sequence.
struct ScheduledItem {
  Sequence* sequence = nullptr;
  int32_t start = 0;
  int32_t num_tokens = 0;
  // The last id is part of it: its successor is sampled, unless the sequence wants no token.
  bool sample = false;
};

// Rows that stand for nobody, at positions [start, start + num_tokens): of a padded static batch.
struct PaddingItem {
  int32_t start = 0;
  int32_t num_tokens = 0;
  bool sample = false;
};

// What keeps the first sequence of the queue from starting.
enum class BlockedBy {
  kNothing,
  kPlaces,
  kTokens,
  kBlocks,
  kPreemption,
  kLeader,
  kBatch,    // Its batch fills, or the one before runs.
  kFairness  // Lower classes run, and its own has had its share.
};
inline constexpr int kNumBlockedBy = 8;
const char* BlockedByName(BlockedBy rule);

// For whom a sequence gave way.
enum class PreemptReason {
  kMemory,     // A running one's next token had no block.
  kPriority,   // One of a higher class, for its place.
  kBlocks,     // Likewise, for its blocks.
  kPromotion,  // One that had waited its time out.
};
inline constexpr int kNumPreemptReasons = 4;
const char* PreemptReasonName(PreemptReason reason);

// What one step does. Block tables already cover it.
struct Schedule {
  std::vector<ScheduledItem> items;  // Decodes first, then prefill chunks; each in rank order.
  std::vector<PaddingItem> padding;
  // In the order in which they gave way.
  struct Preempted {
    Sequence* sequence = nullptr;
    PreemptReason reason = PreemptReason::kMemory;
  };
  std::vector<Preempted> preempted;
  std::vector<Sequence*> started;  // For the first time; resumed ones are not named.
  // Sequences that are fetching from now on: the tier is to be asked for their blocks from
  // computed / kBlockTokens on, as many as `blocks` says, and then for the parked tail.
  struct Fetch {
    Sequence* sequence = nullptr;
    int32_t blocks = 0;
    bool tail = false;
  };
  std::vector<Fetch> fetches;
  int32_t num_tokens = 0;          // Of the items.
  int32_t num_prefill_tokens = 0;  // Of these, those of prefill chunks.
  int32_t num_padding_tokens = 0;
  Sequence* head = nullptr;  // The first of the queue that did not start; null: none waits.
  BlockedBy head_blocked_by = BlockedBy::kNothing;
  // Where nobody computes for a batch fills: when that may change without anything else happening.
  TimePoint next_look = TimePoint::max();

  void Reserve(size_t places);
  void Clear();
  int32_t num_rows() const { return num_tokens + num_padding_tokens; }
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_SCHEDULE_H_
