// The order in which a dispatcher's requests start.
#ifndef ROPEWAY_GATEWAY_DISPATCH_ORDER_H_
#define ROPEWAY_GATEWAY_DISPATCH_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gateway/dispatch_entries.h"
#include "gateway/replicas.h"
#include "policy/scheduling_policy.h"
#include "scheduler/waiting_queue.h"
#include "service/front_desk.h"

namespace ropeway::gateway {

// The policy ranks, as in an engine: aged requests by arrival, then the rank, then the arrival
// (scheduler::Before). What belongs to a tenant that has its share of the places goes behind the
// rest. Thread rule: the dispatcher's.
class DispatchOrder {
 public:
  // A request's position in a step.
  struct Ranked : scheduler::Place {
    DispatchEntry* entry = nullptr;
    const core::Job* job() const { return entry; }
  };

  // `entries` and `replicas` must outlive it.
  DispatchOrder(std::unique_ptr<policy::SchedulingPolicy> policy, base::Duration max_wait,
                const DispatchEntries* entries, const Replicas* replicas)
      : policy_(std::move(policy)), aging_(max_wait), entries_(*entries), replicas_(*replicas) {}

  policy::SchedulingPolicy* policy() const { return policy_.get(); }
  void ReplacePolicy(std::unique_ptr<policy::SchedulingPolicy> policy) {
    policy_ = std::move(policy);
  }

  // Takes memory for so many requests. Throws std::bad_alloc.
  void Reserve(size_t count) { aging_.Reserve(count); }

  // The entry is about to wait, from now on.
  void OnWaits(DispatchEntry* entry, base::TimePoint now);
  // Requests wait that no step has seen.
  bool has_fresh() const { return has_fresh_; }
  // Requests that all replicas may have at once, from now on.
  void set_limit(int limit) { limit_ = limit; }
  void BeginStep(base::TimePoint now);
  base::TimePoint step_began() const { return step_began_; }

  Ranked RankedOf(DispatchEntry* entry) const;
  // Its tenant has its share of the places.
  bool Yields(const DispatchEntry& entry) const {
    // What was begun goes on.
    return !entry.was_sent() && entries_.tenants().HasItsShare(*entry.tenant, limit_);
  }

  // So much was computed for the entry.
  void Charge(DispatchEntry* entry, int32_t prompt, int32_t output);
  // It starts: the first token is charged before it comes, so that tenants start in turn.
  void ChargeStart(DispatchEntry* entry);
  void OnFinished(const DispatchEntry& entry, bool completed) {
    policy_->OnFinished(entry, completed);
  }

  // In order of their ids. Positions are as of the last step. O(n log n).
  std::vector<service::RequestInfo> Requests(base::TimePoint now) const;
  // Requests that start before this one; -1: it was sent, or is not there. O(n).
  int32_t PositionOf(RequestId id) const;

 private:
  // Notes whose tenants are above another one's share.
  void NoteAboveShare();
  // Looks up the caches of some of them anew.
  void RefreshHints();
  void UpdateHint(DispatchEntry* entry) const;

  std::unique_ptr<policy::SchedulingPolicy> policy_;
  scheduler::Aging aging_;
  const DispatchEntries& entries_;
  const Replicas& replicas_;
  int limit_ = 1;
  base::TimePoint step_began_{};
  bool has_fresh_ = false;
  size_t next_hint_ = 0;  // Position in the queue.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_ORDER_H_
