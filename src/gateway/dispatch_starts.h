// Which of a dispatcher's requests start next, and where.
#ifndef ROPEWAY_GATEWAY_DISPATCH_STARTS_H_
#define ROPEWAY_GATEWAY_DISPATCH_STARTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "gateway/dispatch_entries.h"
#include "gateway/dispatch_load.h"
#include "gateway/dispatch_options.h"
#include "gateway/dispatch_order.h"
#include "gateway/dispatch_places.h"
#include "gateway/replicas.h"
#include "gateway/retry_budget.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::gateway {

// Decides in passes which waiting requests start; it begins a new step of the order when that is
// due. A pass ranks the requests that a free replica could take, and then gives one after the
// other, each with its replica. Others pass a request while no replica is free for it, while it
// waits for the replica that has its prompt's cache, or while it is a retry and the budget has no
// token for it.
//
// Thread rule: the dispatcher's.
class DispatchStarts {
 public:
  // The requests that a pass looks at.
  enum class Pass {
    kAll,      // Continuous, or serial.
    kApart,    // Requests that wait for no batch.
    kMembers,  // The others.
    kBeyond    // Requests that may go beyond the places of a replica.
  };
  // The parts of the dispatcher, which must outlive it.
  struct Sources {
    const DispatchOptions& options;
    const Replicas& replicas;
    const DispatchEntries& entries;
    DispatchOrder& order;
    const DispatchPlaces& places;
    const DispatchLoad& load;
    DispatchBatches& batches;
    RetryBudget& budget;
  };
  explicit DispatchStarts(const Sources& sources) : from_(sources) {}

  // Takes memory for passes over so many requests. Throws std::bad_alloc.
  void Reserve(size_t count);

  // Calls `send` with each request that starts now and its replica. The requests of a pass that
  // start for the first time are a batch, also if `send` throws. `flush`: no more requests will
  // come. Returns when more may start without any event.
  using SendFn = std::function<void(DispatchEntry*, const Route&)>;
  base::TimePoint Run(base::TimePoint now, bool flush, const SendFn& send);

  // The parts of Run: Look, Begin and Next.

  // Begins a look at all requests: next_look() is as of now.
  void Look(base::TimePoint now);
  // Begins a pass in which at most `most` requests start that were not sent before.
  void Begin(Pass pass, int most);
  // The next request, and its replica; null: no more start in this pass. It is sent before the next
  // call.
  struct Start {
    DispatchEntry* entry = nullptr;
    Route route;
  };
  Start Next();
  // How many requests of the pass were not sent before.
  int started() const { return started_; }

  // Members of the next batch; 0: none begins now.
  int MembersThatMayStart(bool flush);
  // Urgent requests that may still start beside the batches: so many that half the places are left.
  int JoinsLeft() const;

  // When a request that was passed may start without any event.
  base::TimePoint next_look() const { return next_look_; }
  uint64_t retries_delayed() const { return retries_delayed_; }  // Each counts once.

 private:
  // Runs a pass in which at most `most` requests start that were not sent before; returns how many.
  int RunPass(Pass pass, int most, const SendFn& send);
  // Makes a batch of the requests that started for the first time in the pass. REQUIRES: a batch is
  // reserved.
  void NumberBatch();
  bool IsOf(Pass pass, const DispatchEntry& entry) const;
  // Whether a waiting request whose tenant is below its share could go to a free place.
  bool AnyBelowItsShare() const;
  // Fills line_.
  void Rank();
  DispatchPlaces::Free FreeNow() const { return from_.places.FreeAt(now_, pass_ == Pass::kBeyond); }
  Route RouteOf(const DispatchEntry& entry, ReplicaMask free) const;
  bool WaitsForItsCache(DispatchEntry* entry, const Route& route);
  // Takes the token of the budget that a retry needs; false: there is none.
  bool Pays(DispatchEntry* entry);
  void NoteLook(base::TimePoint time) { next_look_ = std::min(next_look_, time); }

  const Sources from_;
  base::TimePoint now_{};
  base::TimePoint next_look_ = base::TimePoint::max();
  uint64_t retries_delayed_ = 0;

  // Of the pass.
  Pass pass_ = Pass::kAll;
  int most_ = 0;
  int started_ = 0;
  int passed_ = 0;
  DispatchPlaces::Free free_;
  const DispatchEntry* last_ = nullptr;  // That Next gave.
  bool last_was_sent_ = false;           // Before.
  bool some_yield_ = false;              // Some of those in line_ yield;
  bool none_may_yield_ = false;          // none that does may start.
  scheduler::WaitingQueue<DispatchOrder::Ranked> line_;
  DispatchEntries::List given_;  // By Next, without a batch yet.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_STARTS_H_
