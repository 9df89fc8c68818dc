// Decides what one step computes.
#ifndef ROPEWAY_SCHEDULER_SCHEDULER_H_
#define ROPEWAY_SCHEDULER_SCHEDULER_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/sequence.h"
#include "core/sequence_state.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "ropeway/status.h"
#include "scheduler/admission.h"
#include "scheduler/batches.h"
#include "scheduler/cost_model.h"
#include "scheduler/prefill_budget.h"
#include "scheduler/queue_load.h"
#include "scheduler/sampling_turns.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/scheduler_output.h"
#include "scheduler/tenant_table.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// Accounts for slots, tokens and blocks; the policy ranks. The order of a step is Before
// (waiting_queue.h). Rules, in the order in which a step applies them:
//
// 1. With continuous batching, a sequence of the queue may preempt running ones: by the policy
//    (MayPreempt), or a later arrival once it is past max_wait. In rank order, each such sequence
//    starts; if a slot or blocks are missing, the policy's victims are preempted. Not preempted are
//    sequences that ran for less than kMinRunSteps since they started, were preempted
//    kMaxPreemptions times, have generated preempt_max_generated tokens, or lead others. None is
//    preempted if all of them together could not make the room. An aged sequence that may preempt
//    none is passed by the next ones while at least half the slots are left to earlier arrivals.
//    The first sequence starts here too if there is room for it and its prompt would be urgent.
//    Then, with several tenants and a policy that divides service between them, the first sequence
//    of each waiting tenant that is below another one (IsBelow) starts, in the order of the
//    tenants' classes and service, whoever stands before it in the queue; sequences of tenants
//    that it is below give way: the latest class, the most service and the newest first. None is
//    exempt but those that do not give way yet (MayGiveWay). A tenant passes one that could not
//    start only if it holds less. Last, each tenant's sequences that must start now for all that
//    wait to be within max_wait (NoteDue) start, at the expense of their own tenant or of one with
//    at least as much service; half of the tenant's slots are left to those that ran longer.
// 2. Each decoding sequence gets one token, in rank order. Decodes that may be preempted for an
//    urgent prompt (UrgentSteps) leave the step to it, but not more than four steps in a row. If
//    sampling would cost too much of the step, some whose sampling is costly wait for the next one
//    (RestCostly): their class has a backlog then, and past max_wait they are aged. If a block is
//    missing, the policy's victims among the running sequences without work in this step are
//    preempted, until there is a block or the sequence itself was the victim; with several tenants,
//    of the lowest class those of the tenant that holds the most.
// 3. In rank order, prefilling sequences get a chunk of the rest of the step's budget
//    (PrefillBudget; the first at least one token), and sequences of the queue start while the
//    batch former, a slot, a token, and blocks for all their ids and one more allow it. The first
//    that does not fit ends the starting: none passes it, unless it is a long one and only the long
//    ones' budget is spent. A step that preempted for memory starts none.
//    With serial, static and dynamic batching, sequences start for the first time as a batch, when
//    no other batch runs. With urgent_joins, one of class high starts also while a batch runs, if
//    fewer than half the slots are taken by such ones; it is a batch of its own, and the next batch
//    does not wait for it. It does not pass an aged sequence unless at least half the slots are
//    left to earlier arrivals than that.
// 4. Cached ids of a starting sequence are not computed. If a tier holds more of them and reading
//    is cheaper than computing, the sequence fetches first, and computes from the step on in which
//    the read is over.
// 5. If another sequence (the leader) computes or reads the prefix that a starting one needs next,
//    and that prefix, with what a tier holds behind it, is at least kMinFollowTokens long, the
//    starting one follows: it stays in the queue, others pass it, and the leader runs at the best
//    rank of its followers. If the leader ends or is preempted, the first of its followers starts
//    and leads the others.
//
// Every sequence makes progress. There are at most max_num_batched_tokens slots, so each decoding
// sequence gets its token (after at most four urgent steps, and as its turn to be sampled comes),
// and the first prefilling one at least one. A sequence that waits (in the queue, or running
// without a chunk) is aged after max_wait and goes before all later arrivals, in up to half the
// slots (rounded up). An aged sequence is preempted only for memory, and only if all others are
// aged too, until it decodes and has run for kMinRunSteps; but to another tenant it gives way as
// all do, and while its tenant is above another one's share it does not age: aging is an order
// within a tenant and between classes. Turns between tenants have an end because each moves their
// service towards each other: who has the least never gives way.
//
// Thread rule: the engine thread. Sequences belong to the caller and must outlive their stay.
class Scheduler final : public AdmissionQueue {
 public:
  // REQUIRES: options.Validate() is OK.
  Scheduler(const SchedulerOptions& options, policy::SchedulingPolicy* policy,
            kvcache::KvCacheManager* kv, core::SequenceMover* mover);

  // Queues a waiting sequence. Reserves all memory that the other methods will need for it, except
  // KvCacheManager::Reserve for tokens that are still to be generated; throws std::bad_alloc with
  // nothing changed. REQUIRES: its ids and max_tokens fit the whole pool.
  void Add(core::Sequence* sequence, base::TimePoint now);

  // Removes the sequence in whatever state by `event` (end, abort or fail) and releases its blocks.
  // `completed`: see SchedulingPolicy::OnFinished.
  void Remove(core::Sequence* sequence, core::SequenceEvent event, bool completed);
  void Remove(core::Sequence* sequence, core::SequenceEvent event) {
    Remove(sequence, event, event == core::SequenceEvent::kEnd);
  }

  // The read of a fetching sequence is over, whatever it brought (`computed`).
  void FetchDone(core::Sequence* sequence);

  static constexpr int32_t kMinFollowTokens = 4 * base::kBlockTokens;
  static constexpr int32_t kMinRunSteps = scheduler::kMinRunSteps;
  // Where tenants have names, prompts make a step about this long at most, but it has at least
  // kLeastStep units: with fewer rows the kernels are slower (docs/performance.md).
  static constexpr base::Duration kLongestStep = std::chrono::milliseconds(100);
  static constexpr double kLeastStep = 64;

  // Schedules the next step: moves states and allocates blocks accordingly. The reply is valid
  // until the next call. It has no items only if there is no sequence, a batch fills (next_look),
  // all running sequences fetch, or a block was leaked.
  const SchedulerOutput& Schedule(base::TimePoint now);

  // The last scheduled step took `took`. With its result, before that changes any sequence: what
  // sampling took of it is learned too.
  void OnStep(base::Duration took, const core::StepResult& result) {
    const auto busy = costs_.OnStep(output_, took, result, running_, limit_);
    if (busy) load_.OnStep(busy->work, busy->took);
  }
  void OnStep(base::Duration took) { OnStep(took, core::StepResult{}); }

  // Limits the sequences that run at once from now on, to at least one; running ones go on.
  void set_limit(int limit) { limit_ = std::clamp(limit, 1, max_running_); }
  int limit() const { return limit_; }
  // No more sequences will come: a batch that fills begins.
  void set_flush(bool flush) { batches_.set_flush(flush); }

  // Count the sequences that wait or run.
  int num_waiting() const { return Count(queue_, core::SequenceState::kWaiting); }
  int num_preempted() const { return Count(queue_, core::SequenceState::kPreempted); }
  int num_fetching() const { return Count(running_, core::SequenceState::kFetching); }
  int num_running() const { return static_cast<int>(running_.size()); }
  bool empty() const { return queue_.empty() && running_.empty(); }

  // The number of queued sequences that rank before this queued one, as of the last step.
  int32_t PositionOf(const core::Sequence& sequence) const;
  // The ids of the queue in the order of the last step. O(n log n); throws std::bad_alloc.
  std::vector<uint64_t> QueueOrder() const;
  // Waiting and preempted sequences, unordered.
  std::span<core::Sequence* const> queue() const { return queue_; }
  std::span<core::Sequence* const> running() const { return running_; }
  int64_t queued_tokens() const { return load_.tokens(); }
  bool StartsAtOnce(const core::CoreRequest& /*request*/) const override {
    return queue_.empty() && num_running() < limit_;
  }
  // The load, which predicts waits. Throws std::bad_alloc.
  void View(LoadView* view) const override;
  Work WorkOf(const core::CoreRequest& request) const override { return load_.WorkOf(request); }
  const StepCost& step_cost() const { return costs_.step(); }
  int max_running() const { return max_running_; }

  // Each sequence's state fits the list it is on, none is on two, and only running ones hold
  // blocks. kInternal names what is broken.
  Status CheckIntegrity() const;

 private:
  bool continuous() const { return batches_.continuous(); }
  Ranked RankedOf(core::Sequence* sequence) const;
  // The most positions that a sequence's blocks cover: its last token is never computed, but to
  // start it needs a block for the next one.
  static int32_t LongestTable(const core::Sequence& sequence);
  // The positions that a sequence must have blocks for to start: its ids and one more, if it wants
  // a token. Otherwise its prefill could be in vain for want of a block for the sampled token.
  static int32_t PositionsToStart(const core::Sequence& sequence);
  static void Erase(std::vector<core::Sequence*>* list, core::Sequence* sequence);
  static int Count(std::span<core::Sequence* const> list, core::SequenceState state);

  // The stages of Schedule.
  void BeginStep(base::TimePoint now);
  // Preempts what has become too long for the short factors of RoPE.
  void PreemptLong();
  void RankRunning();
  // Releases followers whose leader computes nothing for them any more, and ranks the leaders.
  void UpdateFollowers();
  void RankQueue();
  void StartUrgent();
  void StartBelowShare();
  void StartDue();
  void ScheduleDecodes();
  void SchedulePrefills();
  // Charges slots of running sequences that have no work in this step.
  void ChargeIdle();

  // Looks up the cached prefixes of some of the queue anew.
  void RefreshHints();
  void UpdateHint(core::Sequence* sequence);

  // Tenants (scheduler_tenants.cc).
  // What a step may cost as far as prompts decide: another tenant's request may come meanwhile,
  // and waits for its end.
  double StepLimit() const;
  // Preempts candidates_ until `urgent` can start; none if all of them do not make the room.
  bool GiveWayTo(const Ranked& urgent, int slots);
  void StartNow(const Ranked& ranked);
  // Fills due_ with the sequences of each tenant that wait longest and must start now so that all
  // that wait start within max_wait since they came.
  void NoteDue();
  bool MustStart(std::span<core::Sequence* const> of_one_tenant);
  // Of candidates_ for memory, leaves those of the lowest class that belong to the tenant that
  // holds the most, and of these the ones that may give way, if there are any.
  void KeepLargestHolder();

  // Preemption for a sequence of the queue.
  bool MayBeVictim(const Ranked& victim, const Ranked& urgent);
  // Fills candidates_ with the running sequences that may be preempted for it.
  void FindVictims(const Ranked& urgent);
  // Preempts candidates_ until `urgent` can start; false if all of them do not make the room.
  // `due`: it is past max_wait, or will be.
  bool PreemptFor(const Ranked& urgent, int slots, bool due);
  // The number of running sequences that arrived after it.
  int LaterRunning(const core::Sequence& sequence) const;
  // Whether half the slots are left to arrivals before each aged sequence that was passed.
  bool MayPassAged() const;

  // Preemption for memory. Gives ranked_[index] blocks for its next position; false: it was
  // preempted itself.
  bool ExtendOrPreempt(size_t index);
  // Nothing is computed in this step since no prompt has the blocks of its layers with windows for
  // a token more: gives the first one a chunk.
  void PreemptForChunk();
  void Preempt(const core::Sequence* victim, PreemptReason reason);

  // Starting sequences.
  // Starts the first of the queue, or passes it; false: no more start in this step.
  bool StartFirst();
  BlockedBy WhatBlocks(const Ranked& first, const kvcache::CachedPrefix& prefix) const;
  void NoteBlocked(core::Sequence* head, BlockedBy rule);
  // The step's budget has something left for a sequence that starts after `prefix`.
  bool HasBudget(const core::Sequence& sequence, const kvcache::CachedPrefix& prefix) const;
  bool IsLong(const core::Sequence& sequence, int32_t computed) const {
    return options_.long_prefill_threshold > 0 &&
           sequence.num_ids() - computed > options_.long_prefill_threshold;
  }
  // Whether the sequence follows another one from now on.
  bool Follow(core::Sequence* sequence, kvcache::CachedPrefix* prefix);
  void Start(const Ranked& ranked, kvcache::CachedPrefix* prefix);

  // Adding work to the step.
  void AddChunk(core::Sequence* sequence);
  void AddItem(core::Sequence* sequence, int32_t num_tokens);
  int32_t rows_left() const { return options_.max_num_batched_tokens - output_.num_rows(); }

  const SchedulerOptions options_;
  const int max_running_;
  policy::SchedulingPolicy* const policy_;
  kvcache::KvCacheManager* const kv_;
  core::SequenceMover* const mover_;
  CostModel costs_;
  TenantTable tenants_;
  QueueLoad load_;
  Batches batches_;
  PrefillBudget budget_;
  Aging aging_;
  UrgentSteps urgent_;
  SamplingTurns sampling_;

  int limit_;
  std::vector<core::Sequence*> queue_;    // Waiting and preempted, unordered: ranks may change.
  std::vector<core::Sequence*> running_;  // Prefilling, fetching and decoding, unordered.

  // Of the step being scheduled; members, so that a step allocates nothing once they have grown.
  SchedulerOutput output_;
  std::vector<Ranked> ranked_;  // The running sequences in rank order.
  WaitingQueue line_;           // The queue without followers.
  std::vector<const core::Sequence*> candidates_;
  std::vector<Ranked> passed_;  // Aged sequences that others may pass.
  std::vector<Ranked> turns_;   // The first of each waiting tenant.
  std::vector<core::Sequence*> due_;
  base::TimePoint now_{};
  uint64_t step_ = 0;
  size_t next_hint_ = 0;  // Index in the queue.
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_SCHEDULER_H_
