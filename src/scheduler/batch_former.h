// When a batch begins.
#ifndef ROPEWAY_SCHEDULER_BATCH_FORMER_H_
#define ROPEWAY_SCHEDULER_BATCH_FORMER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ropeway {

struct BatchFormerOptions {
  enum class Kind { kSerial, kStatic, kDynamic, kContinuous };
  Kind kind = Kind::kContinuous;
  int max_batch_size = 1;  // kStatic, kDynamic: at least 1.
  Duration timeout{};  // kStatic, kDynamic: of the oldest that waits; then what is there starts.
  bool auto_timeout = false;  // kDynamic: instead of `timeout`, as below.
  Duration target_latency{};  // For auto_timeout: from a request's arrival to its batch's end.
};

// How many sequences that never ran may start in a step, by strategy:
//
//   - continuous: as many as there are places;
//   - serial: one, when nothing runs;
//   - static and dynamic: none while the present batch runs; then, at once and all together, up to
//     max_batch_size (or the places, where they are fewer) as soon as so many wait, or the oldest
//     has waited `timeout`, or one of them is urgent, or nothing more will come. The two differ in
//     the timeout alone, and in what the scheduler makes of the rows that ended (padding).
//
// auto_timeout waits only as long as the batch is likely to fill in time. With
//
//     missing = places of the batch that nobody has yet
//     gap     = time between arrivals: exponentially weighted mean, or, where that is longer, the
//               time since the last one
//     latest  = when the oldest will have waited target_latency less the predicted time of a batch
//               of those that are there
//
// the batch starts once now + missing x gap > latest: it would not fill by then. So it never waits
// beyond `latest`, a deep queue starts at once, and so does a lone request when arrivals are rare.
// Before two requests have arrived nothing is known of the gap, and nobody waits. A batch's time is
// predicted by the exponentially weighted mean of those before it with the same floor(log2) of rows
// and of prompt tokens, or else of the nearest such bucket; 0 before the first.
//
// Thread rule: the engine thread.
class BatchFormer {
 public:
  // What a step begins with.
  struct QueueView {
    int waiting = 0;      // Sequences that never ran.
    TimePoint oldest{};   // Since when the oldest of them waits; any value where none does.
    bool urgent = false;  // One of them is of class high.
    int running = 0;  // Members of the present batch that have not ended: they run, or gave way.
    int places = 0;   // Free ones.
    int32_t prompt_tokens = 0;  // Of those that wait, or of the first max_batch_size of them.
    bool flush = false;         // Nothing more will come.
  };

  static constexpr double kNewestGap = 1.0 / 8;    // Its weight in the mean.
  static constexpr double kNewestBatch = 1.0 / 4;  // A batch's time's.

  explicit BatchFormer(const BatchFormerOptions& options) : options_(options) {}

  // A sequence came to the queue.
  void OnArrival(TimePoint now);

  // How many of those that wait may start now.
  int Places(const QueueView& view, TimePoint now);

  // When the last call's reply may change without any event; TimePoint::max(): never.
  TimePoint next_look() const { return next_look_; }

  // Since when places were free and the former held back, until OnStarted or until nobody waits;
  // TimePoint::max(): it does not.
  TimePoint collecting_since() const { return collecting_since_; }

  // So many started, with prompts of so many tokens together: a batch began.
  void OnStarted(int count, int32_t prompt_tokens, TimePoint now);

  // The last member of the batch ended.
  void OnBatchEnded(TimePoint now);

  // What a batch of so many rows and prompt tokens will take.
  Duration PredictedTime(int rows, int32_t prompt_tokens) const;

 private:
  using Kind = BatchFormerOptions::Kind;
  static constexpr size_t kRowBuckets = 16;
  static constexpr size_t kTokenBuckets = 32;

  // When a batch with so many of `size` starts though it is not full.
  TimePoint StartsAt(const QueueView& view, int size) const;
  double& TimeOf(int rows, int32_t prompt_tokens);

  const BatchFormerOptions options_;
  TimePoint next_look_ = TimePoint::max();
  TimePoint collecting_since_ = TimePoint::max();

  int64_t arrivals_ = 0;
  TimePoint last_arrival_{};
  double gap_ = 0.0;  // Seconds; valid from the second arrival on.

  int rows_ = 0;  // Of the present batch; 0: none runs.
  int32_t prompt_tokens_ = 0;
  TimePoint began_{};
  // Seconds by bucket; 0: none has been seen.
  std::array<std::array<double, kTokenBuckets>, kRowBuckets> times_{};
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_BATCH_FORMER_H_
