// Batches: who starts together, and the padding of their rows.
#ifndef ROPEWAY_SCHEDULER_BATCHES_H_
#define ROPEWAY_SCHEDULER_BATCHES_H_

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "core/sequence.h"
#include "scheduler/batch_former.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/scheduler_output.h"

namespace ropeway::scheduler {

// With continuous batching a batch is what starts in one step, and has no end. With serial, static
// and dynamic batching, sequences start for the first time as a batch, when no other batch runs.
// With urgent_joins, one of class high starts also while a batch runs, if fewer than half the slots
// are taken by such ones; it is a batch of its own, and the next batch does not wait for it.
//
// Thread rule: the scheduler's.
class Batches {
 public:
  using Sequences = std::span<core::Sequence* const>;

  Batches(const SchedulerOptions& options, int slots)
      : options_(options),
        slots_(slots),
        former_(options.batching),
        padding_(static_cast<size_t>(slots)) {}

  bool continuous() const {
    return options_.batching.kind == BatchFormerOptions::Kind::kContinuous;
  }
  // No more sequences will come: a batch that fills begins.
  void set_flush(bool flush) { flush_ = flush; }
  void OnArrival(base::TimePoint now) { former_.OnArrival(now); }

  // Begins a step: decides how many sequences may start. If nothing runs and none may, since a
  // batch fills, sets when to look again. `limit`: sequences that may run at once;
  // `prompt_tokens`: of the queue.
  void BeginStep(Sequences queue, Sequences running, int limit, int64_t prompt_tokens,
                 base::TimePoint now, SchedulerOutput* step);
  // Classic static batches compute all their prompts before anything else.
  bool PrefillsFirst(Sequences running) const;
  // Whether one more sequence may start that has never run.
  bool MayStart() const { return continuous() || new_slots_ > 0; }
  // Else: whether this one may start beside the running batch.
  bool MayJoin(const core::Sequence& sequence, Sequences running, int limit) const;
  // The sequence starts for the first time; its queued_since is that of the queue.
  void OnStart(core::Sequence* sequence, base::TimePoint now);
  // Ends a step: numbers the batch that has started in it, and adds padding, within so many rows.
  void EndStep(Sequences queue, Sequences running, int32_t rows_left, base::TimePoint now,
               SchedulerOutput* step);

 private:
  // Sequences of the running batch that have not ended; without joined ones.
  int32_t NumMembers(Sequences queue, Sequences running) const;
  void Number(int32_t running, base::TimePoint now, const SchedulerOutput& step);

  const SchedulerOptions options_;
  const int slots_;
  BatchFormer former_;
  StaticPadding padding_;
  bool flush_ = false;
  uint64_t newest_ = 0;   // Number of the newest batch.
  uint64_t running_ = 0;  // Not continuous: of the running batch; 0: none runs.
  int32_t size_ = 0;      // Of the running batch, including members that have ended.
  int new_slots_ = 0;     // Sequences that may start for the first time in this step.
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_BATCHES_H_
