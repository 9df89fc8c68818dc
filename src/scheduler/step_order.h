// The order of one step: of the sequences that run and of those that wait.
#ifndef ROPEWAY_SCHEDULER_STEP_ORDER_H_
#define ROPEWAY_SCHEDULER_STEP_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/sequence.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "scheduler/tenant_table.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// The order is Before (waiting_queue.h). A sequence of the queue that follows another one, the
// leader, is not in it: others pass it, and the leader runs at the best rank of its followers. If
// the leader ends or is preempted, the first of its followers starts and leads the others.
//
// Thread rule: the scheduler's.
class StepOrder {
 public:
  // `slots`: sequences that run at once. The others must outlive it.
  StepOrder(const policy::SchedulingPolicy* policy, const kvcache::KvCacheManager* kv,
            size_t slots);
  // For so many sequences. Throws std::bad_alloc.
  void Reserve(size_t sequences) { queue.Reserve(sequences); }

  // Ranks all, and finds the first of each tenant's in the queue.
  void Rank(std::span<core::Sequence* const> waiting, std::span<core::Sequence* const> active,
            TenantTable* tenants);
  Ranked RankedOf(core::Sequence* sequence) const;
  // What has started since then is behind the others.
  void SortRunning();

  // The number of sequences in `waiting` that rank before this one.
  int32_t PositionOf(const core::Sequence& sequence,
                     std::span<core::Sequence* const> waiting) const;
  // Their ids in order. O(n log n); throws std::bad_alloc.
  std::vector<uint64_t> IdsOf(std::span<core::Sequence* const> waiting) const;

  // In rank order. What is preempted in the step stays, and does not run any more.
  std::vector<Ranked> running;
  WaitingQueue<Ranked> queue;  // Without followers.

 private:
  // Releases the sequence if its leader computes nothing for it any more; else its leader runs at
  // its rank, if that is better.
  void UpdateFollower(core::Sequence* follower);

  const policy::SchedulingPolicy* const policy_;
  const kvcache::KvCacheManager* const kv_;
};

// Aged sequences that could not start, and that others pass while at least half the slots are left
// to earlier arrivals than each of them. Thread rule: the scheduler's.
class PassedAged {
 public:
  // For so many sequences. Throws std::bad_alloc.
  void Reserve(size_t sequences);
  void Clear() { passed_.clear(); }
  void Add(const Ranked& ranked) { passed_.push_back(ranked); }
  bool empty() const { return passed_.empty(); }
  // Whether one more sequence may start before them.
  bool MayPass(std::span<core::Sequence* const> running, int limit) const;
  // They stand in the queue again.
  void Return(WaitingQueue<Ranked>* queue) const;

 private:
  std::vector<Ranked> passed_;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_STEP_ORDER_H_
