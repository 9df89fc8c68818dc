// When a batch begins, which requests are in it, and the padding rows of a classic static batch.
#ifndef ROPEWAY_SCHEDULER_BATCH_FORMER_H_
#define ROPEWAY_SCHEDULER_BATCH_FORMER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/scheduler_output.h"

namespace ropeway::scheduler {

// The number of new sequences that may start in a step, by strategy (SchedulingOptions):
//
//   - continuous: as many as there are slots;
//   - serial: one, when nothing runs;
//   - static and dynamic: none while a batch runs; then, all together, up to max_batch_size (or the
//     free slots, if fewer), as soon as so many wait, the oldest has waited static_flush or
//     batch_timeout, one of them is urgent, or no more will come. The two differ in this timeout,
//     and in the padding of rows that ended.
//
// A negative batch_timeout waits only while the batch is likely to fill in time. With
//
//     missing = slots of the batch that are still empty
//     gap     = time between arrivals: the exponentially weighted mean, or the time since the last
//               arrival if that is longer
//     latest  = when the oldest will have waited target_latency less the predicted time of a batch
//               of the sequences that wait
//
// the batch starts once now + missing x gap > latest: it would not fill by then. So it never waits
// beyond `latest`; a deep queue starts at once, and so does a lone request when arrivals are rare.
// Before the second arrival no gap is known, and a batch starts at once. A batch's time is
// predicted by the exponentially weighted mean of earlier batches with the same floor(log2) of rows
// and of prompt tokens, or else of the nearest such bucket; 0 before the first.
//
// Thread rule: the engine thread.
class BatchFormer {
 public:
  // The state in which a step begins.
  struct QueueView {
    int waiting = 0;           // Sequences that never ran.
    base::TimePoint oldest{};  // Arrival of the oldest of them; any value if there is none.
    bool urgent = false;       // One of them is of class high.
    int running = 0;           // Members of the present batch that have not ended.
    int free_slots = 0;
    int32_t prompt_tokens = 0;  // The waiting sequences' prompts.
    bool flush = false;         // No more will come.
  };

  static constexpr double kNewestGap = 1.0 / 8;    // Weight of the newest gap in the mean.
  static constexpr double kNewestBatch = 1.0 / 4;  // Weight of the newest batch's time.

  // REQUIRES: CheckSchedulingOptions(options) is OK.
  explicit BatchFormer(const SchedulingOptions& options)
      : options_(options), strategy_(*StrategyOf(options.strategy)) {}

  // A sequence joined the queue.
  void OnArrival(base::TimePoint now);

  // Returns how many of the waiting sequences may start now.
  int MayStart(const QueueView& view, base::TimePoint now);

  // When the last reply of MayStart may change without any event; TimePoint::max(): never.
  base::TimePoint next_look() const { return next_look_; }

  // Since when a batch has been filling although slots are free; TimePoint::max(): none fills.
  base::TimePoint collecting_since() const { return collecting_since_; }

  // A batch of `count` sequences began, with `prompt_tokens` tokens of prompts together.
  void OnStarted(int count, int32_t prompt_tokens, base::TimePoint now);

  // The last member of the batch ended.
  void OnBatchEnded(base::TimePoint now);

  // Returns the predicted time of a batch.
  base::Duration PredictedTime(int rows, int32_t prompt_tokens) const;

 private:
  static constexpr size_t kRowBuckets = 16;
  static constexpr size_t kTokenBuckets = 32;

  // When a part batch starts that could hold `size`.
  base::TimePoint StartsAt(const QueueView& view, int size) const;
  double& TimeOf(int rows, int32_t prompt_tokens);

  const SchedulingOptions options_;
  const Strategy strategy_;
  base::TimePoint next_look_ = base::TimePoint::max();
  base::TimePoint collecting_since_ = base::TimePoint::max();

  int64_t arrivals_ = 0;
  base::TimePoint last_arrival_{};
  double gap_ = 0.0;  // Seconds; valid from the second arrival on.

  int rows_ = 0;  // The present batch; 0: none runs.
  int32_t prompt_tokens_ = 0;
  base::TimePoint began_{};
  // Mean seconds by bucket; 0: no batch of this bucket has ended.
  std::array<std::array<double, kTokenBuckets>, kRowBuckets> times_{};
};

// In a classic static batch all rows have one length: shorter prompts are padded to the longest,
// and a sequence that has ended goes on as padding until the last one has. This makes those rows,
// so that the strategy costs here what it costs in classic batching. Thread rule: the scheduler's.
class StaticPadding {
 public:
  // `slots`: sequences of a batch, at most.
  explicit StaticPadding(size_t slots) { shorter_.reserve(slots); }

  // A batch begins with these members.
  void Begin(std::span<const core::Sequence* const> members);
  // All of them have ended: nothing more is padded.
  void End() { shorter_.clear(); }

  // Some prompt is not padded yet: no sequence decodes before.
  bool prefilling() const { return !shorter_.empty(); }

  // Adds padding to a step: at most `tokens` rows in at most `items` items, first of prompts that
  // are padded; then, if `longest` > 0, a row for each of the `ended` members, at the position of
  // the longest that still runs.
  void Add(int32_t tokens, int32_t items, int32_t ended, int32_t longest, SchedulerOutput* output);

 private:
  // The positions of a prompt that are still to be padded: [next, end).
  struct Shorter {
    int32_t next = 0;
    int32_t end = 0;
  };
  std::vector<Shorter> shorter_;
};

// With continuous batching a batch is what starts in one step, and has no end. With serial, static
// and dynamic batching, sequences start for the first time as a batch, when no other batch runs.
// With urgent_joins, one of class high starts also while a batch runs, if fewer than half the slots
// are taken by such ones; it is a batch of its own, and the next batch does not wait for it.
//
// Thread rule: the scheduler's.
class Batches {
 public:
  using Sequences = std::span<core::Sequence* const>;

  // `slots`: sequences that run at once.
  Batches(const SchedulingOptions& options, int slots)
      : continuous_(IsContinuous(options)),
        urgent_joins_(options.urgent_joins),
        pads_(IsPadded(options)),
        slots_(slots),
        former_(options),
        padding_(static_cast<size_t>(slots)) {}

  bool continuous() const { return continuous_; }
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
  // The sequence starts for the first time; its queued_since is still the time when it was queued.
  void OnStart(core::Sequence* sequence, base::TimePoint now);
  // Ends a step: numbers the batch that has started in it, and adds padding, within so many rows.
  void EndStep(Sequences queue, Sequences running, int32_t rows_left, base::TimePoint now,
               SchedulerOutput* step);

 private:
  // Sequences of the running batch that have not ended; without joined ones.
  int32_t NumMembers(Sequences queue, Sequences running) const;
  void Number(int32_t running, base::TimePoint now, const SchedulerOutput& step);

  const bool continuous_;
  const bool urgent_joins_;
  const bool pads_;
  const int slots_;
  BatchFormer former_;
  StaticPadding padding_;
  bool flush_ = false;
  uint64_t newest_ = 0;   // Number of the newest batch.
  uint64_t running_ = 0;  // Not continuous: of the running batch; 0: none runs.
  int32_t size_ = 0;      // The running batch, including members that have ended.
  int new_slots_ = 0;     // Sequences that may start for the first time in this step.
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_BATCH_FORMER_H_
