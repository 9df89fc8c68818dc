// How a Scheduler is set up.
#ifndef ROPEWAY_SCHEDULER_SCHEDULER_OPTIONS_H_
#define ROPEWAY_SCHEDULER_SCHEDULER_OPTIONS_H_

#include <cstdint>
#include <limits>

#include "base/clock.h"
#include "core/batch.h"
#include "ropeway/status.h"
#include "scheduler/batch_former.h"

namespace ropeway::scheduler {

struct SchedulerOptions {
  int max_num_seqs = 1;            // Sequences that run at once.
  int max_num_batched_tokens = 1;  // Rows of one step, and the limit of its cost (StepCost).
  int max_prefill_chunk = 0;       // Tokens of one sequence in one step; 0: no such limit.
  // Cost of all chunks in a step in which others decode: this, or twice the decodes' cost if that
  // is more and the step is short enough (Scheduler::kLongestStep); 0: no such limit. It does not
  // bind class high.
  int mixed_prefill_budget = 0;
  // A sequence with more tokens to compute when it starts is a long one; 0: none is.
  int long_prefill_threshold = 0;
  // Cost of the chunks of all long ones in a step in which others decode, at most; at most twice
  // the decodes' cost too, but always 16.
  int long_prefill_budget = 64;
  // A sequence that grows longer is computed anew, with the long factors of RoPE.
  int32_t long_rope_above = core::kNoLongRope;
  // A sequence that has generated this many tokens is preempted only if memory is short.
  int32_t preempt_max_generated = std::numeric_limits<int32_t>::max();
  base::Duration max_wait = base::Duration::max();  // Aging; above 0 (CheckQueueOptions).
  double attention_weight = 0.0;                    // The initial weight of StepCost.
  bool learn_cost = false;                          // Learn the weight from the steps' times.
  BatchFormerOptions batching{};
  // Serial, static and dynamic: a sequence of class high may start while a batch runs, in up to
  // half the slots. Else it waits for the end of the batch.
  bool urgent_joins = false;
  bool padding = false;  // Static batches are padded (StaticPadding).

  // InvalidArgument with the field at fault.
  Status Validate() const;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_SCHEDULER_OPTIONS_H_
