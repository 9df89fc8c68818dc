// The sequences of a scheduler: those that wait, those that run, all moves between the two, and
// their order.
#ifndef ROPEWAY_SCHEDULER_SLOTS_H_
#define ROPEWAY_SCHEDULER_SLOTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"
#include "core/sequence_state.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "ropeway/options.h"
#include "ropeway/status.h"
#include "scheduler/queue_load.h"
#include "scheduler/scheduler_output.h"
#include "scheduler/tenant_table.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// A running sequence has a slot and KV blocks. Each move keeps the KV cache, the load, what tenants
// hold and the step's output in line with the two lists.
//
// Thread rule: the engine thread.
class Slots {
 public:
  // The shortest prefix that is waited for while another sequence computes it.
  static constexpr int32_t kMinFollowTokens = 4 * base::kBlockTokens;

  // The others must outlive it.
  Slots(const SchedulingOptions& options, const Aging* aging, kvcache::KvCacheManager* kv,
        core::SequenceMover* mover, TenantTable* tenants, QueueLoad* load, SchedulerOutput* step);

  // Both unordered: ranks may change.
  const std::vector<core::Sequence*>& queue() const { return queue_; }  // Waiting and preempted.
  const std::vector<core::Sequence*>& running() const { return running_; }
  int num_running() const { return static_cast<int>(running_.size()); }
  int max() const { return max_; }
  int limit() const { return limit_; }
  void set_limit(int limit) { limit_ = std::clamp(limit, 1, max_); }
  // The slots of a sequence that preempts others: a lowered limit takes none from one that runs.
  int taken_or_limit() const { return std::max(limit_, num_running()); }
  base::TimePoint now() const { return now_; }  // The time of the step.
  uint64_t step() const { return step_; }       // Its number, from 1 on.

  // Queues a waiting sequence. Throws std::bad_alloc with nothing changed.
  void Add(core::Sequence* sequence, base::TimePoint now);
  // Removes it in whatever state by `event`, and releases its blocks.
  void Remove(core::Sequence* sequence, core::SequenceEvent event);
  // Its read is over.
  void FetchDone(core::Sequence* sequence);

  // Begins a step. Looks up the cached prefixes of some of the queue anew.
  void BeginStep(base::TimePoint now);
  // Preempts what is longer, too long for the short factors of RoPE.
  void PreemptLong(int32_t above);
  // Whether the sequence follows another one from now on: another sequence computes or reads the
  // prefix that it needs next, and that, with what a tier holds behind it, is long enough.
  bool Follow(core::Sequence* sequence, kvcache::CachedPrefix* prefix);
  // Whether there are blocks to start it if `freed` more were free: for all its ids and, if it
  // wants a token, one more. Otherwise its prefill could be in vain for want of a block for the
  // sampled token.
  bool Fits(const core::Sequence& sequence, const kvcache::CachedPrefix& prefix,
            int32_t freed = 0) const {
    return kv_->Fits(sequence, prefix, PositionsToStart(sequence), freed);
  }
  // Starts or resumes it. What is cached is not computed. If a tier holds more of it and reading is
  // cheaper than computing, it fetches first. REQUIRES: Fits.
  void Start(const Ranked& ranked, kvcache::CachedPrefix* prefix);
  // A sequence with more tokens to compute when it starts is a long one.
  bool IsLong(const core::Sequence& sequence, int32_t computed) const {
    return options_.long_prefill_threshold > 0 &&
           sequence.num_ids() - computed > options_.long_prefill_threshold;
  }
  void Preempt(core::Sequence* sequence, PreemptReason reason);

  // Each sequence's state fits the list it is on, none is on two, only running ones hold blocks,
  // and the tenants have as many. kInternal names what is broken.
  Status CheckIntegrity() const;

 private:
  static int32_t PositionsToStart(const core::Sequence& sequence);
  void UpdateHint(core::Sequence* sequence);

  const SchedulingOptions options_;
  const Aging* const aging_;
  kvcache::KvCacheManager* const kv_;
  core::SequenceMover* const mover_;
  TenantTable* const tenants_;
  QueueLoad* const load_;
  SchedulerOutput* const output_;
  const int max_;
  int limit_;
  std::vector<core::Sequence*> queue_;
  std::vector<core::Sequence*> running_;
  base::TimePoint now_{};
  uint64_t step_ = 0;
  size_t next_hint_ = 0;  // Index in the queue.
};

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

#endif  // ROPEWAY_SCHEDULER_SLOTS_H_
