// The batches in which a dispatcher's requests start.
#ifndef ROPEWAY_GATEWAY_DISPATCH_BATCHES_H_
#define ROPEWAY_GATEWAY_DISPATCH_BATCHES_H_

#include <cstdint>
#include <map>

#include "base/clock.h"
#include "core/job.h"
#include "ropeway/stats.h"
#include "scheduler/batch_former.h"

namespace ropeway::gateway {

// Totals since the start.
struct BatchCounts {
  uint64_t batches = 0;
  uint64_t batched = 0;  // Requests that started in them.
  double batch_sizes = 0.0;
  uint64_t batches_ended = 0;
  double batch_seconds = 0.0;  // Of those that ended.
};

// Requests that start together are a batch until the last of them has ended. Those of class high
// that start beside the others (`joins`) are one of their own, for which the next does not wait.
// Thread rule: the dispatcher's.
class DispatchBatches {
 public:
  // `parallel`: batches that may run at once, without those that join.
  DispatchBatches(const scheduler::BatchFormerOptions& options, int parallel)
      : former_(options), parallel_(parallel) {}

  void OnArrival(base::TimePoint now) { former_.OnArrival(now); }
  bool may_run_more() const { return running_ < parallel_; }
  // How many of those that wait may start now; `view.running` is set here.
  int MayStart(scheduler::BatchFormer::QueueView view, base::TimePoint now) {
    view.running = may_run_more() ? 0 : 1;
    return former_.MayStart(view, now);
  }
  // When MayStart may say more without any event.
  base::TimePoint next_look() const { return former_.next_look(); }
  // Members of batches that joined.
  int joined() const { return joined_; }

  // Takes the memory of the next batch; throws std::bad_alloc.
  void Reserve();
  // So many requests start as a batch, of which `size` is said. Returns its number, from 1 on.
  // REQUIRES: reserved since the last one; members > 0.
  struct Starting {
    int32_t members = 0;
    int64_t prompt_tokens = 0;
    int32_t size = 0;
    bool joins = false;
  };
  uint64_t Start(const Starting& starting, base::TimePoint now);
  // Since when the batch that starts next has been filling; for ever, if it joins.
  base::TimePoint filling_since(bool joins) const {
    return joins ? base::TimePoint::max() : former_.collecting_since();
  }
  // A member is under way no more.
  void Leave(uint64_t number, base::TimePoint now);

  const BatchCounts& counts() const { return counts_; }
  void AddTo(EngineStats* stats) const;
  // By number, the members under way.
  std::map<uint64_t, int32_t> Members() const;

 private:
  struct Batch {
    int32_t left = 0;  // Members under way.
    base::TimePoint began{};
    bool joins = false;
  };
  using ByNumber = std::map<uint64_t, Batch>;

  scheduler::BatchFormer former_;
  const int parallel_;
  ByNumber batches_;           // That have not ended.
  ByNumber::node_type spare_;  // Of the next batch; or empty.
  int running_ = 0;            // Without those that join.
  int joined_ = 0;
  BatchCounts counts_;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_BATCHES_H_
