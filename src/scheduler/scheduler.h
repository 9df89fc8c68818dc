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
#include "policy/preemption_limits.h"
#include "policy/scheduling_policy.h"
#include "ropeway/status.h"
#include "scheduler/batch_former.h"
#include "scheduler/prefill_budget.h"
#include "scheduler/promotion.h"
#include "scheduler/queue_load.h"
#include "scheduler/schedule.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/static_padding.h"
#include "scheduler/step_cost.h"
#include "scheduler/urgent_steps.h"
#include "scheduler/waiting_line.h"

namespace ropeway {

// Accounts places, tokens and blocks; the policy ranks. Order: Before (waiting_line.h).
//
// Rules, in the order in which a step applies them:
// 1. With continuous batching, sequences of the queue start in rank order that a running one has to
//    give way to: by the policy (MayPreempt), or because it has waited max_wait and came earlier.
//    Where a place or blocks are missing, the policy's victim among these running ones gives way;
//    not one that has run for less than kMinRunSteps since it started, was preempted
//    kMaxPreemptions times, has generated preempt_max_generated tokens, or leads others. Nobody
//    gives way where all of them together could not make the room. A promoted one that finds nobody
//    to give way is passed by those, as long as half the places are left to what came before it.
//    The first starts here too where there is room for it and its prompt would be urgent (rule 2).
// 2. Each decoding sequence gets one token, in rank order. Those that may be preempted for an
//    urgent prompt, a short rest of a class high (UrgentSteps), leave the step to it (with many
//    rows beside it, it would take twice as long), but not more than four steps one
//    after the other. Where a block is missing, the policy's victim among the running ones without
//    work in this step gives its blocks back, until the block is there or the sequence itself was
//    the victim.
// 3. In rank order, prefilling sequences get a chunk of what is left of the step's budget (the
//    first at least one token; PrefillBudget), and those of the queue start while the batch former,
//    a place, a token and the blocks for all their ids and one more allow it. The first that does
//    not fit ends the starting: nobody passes it, but a long one for which the long ones' budget is
//    spent. A step in which blocks were short starts nobody.
// 4. What the cache has of a starting sequence's ids is not computed. Where a tier has more of them
//    and reading is cheaper than computing, the sequence fetches first, and computes from the step
//    on in which the read is over.
// 5. Where another sequence (the leader) computes or reads what a starting one needs next, and
//    that, with what a tier has behind it, is at least kMinFollowTokens, the starting one follows:
//    it stays in the queue, others pass it, and the leader runs at the best rank of those who
//    follow it. If the leader ends or is preempted, the first of its followers starts and leads the
//    others.
//
// Everybody gets on: places never outnumber max_num_batched_tokens, so each decoding sequence gets
// its token (after at most four steps that were an urgent prompt's), and the first prefilling one
// at least one; who waits (in the queue, or running and without a chunk) is promoted after max_wait
// and passes all that came later, in up to half the places (rounded up); what is promoted gives way
// for memory alone, and only where all others are promoted too, until it decodes and has run for
// kMinRunSteps.
//
// Thread rule: the engine thread. Sequences are the caller's and must outlive their stay.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, SchedulingPolicy* policy, KvCacheManager* kv,
            SequenceMover* mover);

  // Queues a waiting sequence. Takes here, or throws std::bad_alloc with nothing changed, all
  // memory that the other methods will need for it, but KvCacheManager::Reserve for tokens that are
  // still to be generated. REQUIRES: its ids and max_tokens fit the whole pool.
  void Add(Sequence* sequence, TimePoint now);

  // Takes the sequence out by `event` (end, abort or fail), whatever its state, and gives its
  // blocks back. `completed`: of itself, as the policy has it.
  void Remove(Sequence* sequence, SequenceEvent event, bool completed);
  void Remove(Sequence* sequence, SequenceEvent event) {
    Remove(sequence, event, event == SequenceEvent::kEnd);
  }

  // The read that a fetching sequence waits for is over, whatever it brought (`computed`).
  void FetchDone(Sequence* sequence);

  static constexpr int32_t kMinFollowTokens = 4 * kBlockTokens;
  // Long enough that a start's own cost (its blocks, its reads) is small against what it computes;
  // short against a wait.
  static constexpr int32_t kMinRunSteps = 8;

  // Plans the next step: moves states and allocates blocks accordingly. The reply is valid until
  // the next call. Its items are empty only if nobody is there, a batch fills (next_look), all who
  // run fetch, or a block was leaked.
  const Schedule& Plan(TimePoint now);

  // How long the step took that was planned last.
  void OnStep(Duration took);

  // At most so many run at once from now on, and at least one; who runs goes on.
  void set_limit(int limit) { limit_ = std::clamp(limit, 1, max_running_); }
  int limit() const { return limit_; }
  // Nothing more will come: a batch that fills begins.
  void set_flush(bool flush) { flush_ = flush; }

  int num_waiting() const { return static_cast<int>(queue_.size()) - num_preempted_; }
  int num_preempted() const { return num_preempted_; }
  int num_running() const { return static_cast<int>(running_.size()); }
  int num_fetching() const { return num_fetching_; }
  bool empty() const { return queue_.empty() && running_.empty(); }

  // The number of sequences in the queue that rank before this one of it, as of the last plan.
  int32_t PositionOf(const Sequence& sequence) const;
  // The ids of the queue in the order of the last plan. O(n log n); throws std::bad_alloc.
  std::vector<uint64_t> QueueOrder() const;
  // Of all in the queue, and of those that run.
  std::span<Sequence* const> queue() const { return queue_; }
  std::span<Sequence* const> running() const { return running_; }
  int64_t queued_tokens() const { return load_.tokens(); }
  // See QueueLoad.
  double WaitSeconds(Priority priority) const {
    return load_.WaitSeconds(priority, running_, limit_ - num_running());
  }
  const StepCost& step_cost() const { return cost_; }
  int max_running() const { return max_running_; }

  // Each sequence's state fits the list it is on, nobody is on two, and only running ones hold
  // blocks.
  Status CheckIntegrity() const;

 private:
  bool continuous() const {
    return options_.batching.kind == BatchFormerOptions::Kind::kContinuous;
  }
  // What the pool has of some of the queue's ids, anew.
  void RefreshHints();
  void NoteHint(Sequence* sequence);
  void RankRunning();
  void RankQueue();
  Ranked RankedOf(Sequence* sequence) const;
  void AskFormer();
  // Ends the waiting of those whose leader computes nothing for them any more, and ranks the
  // leaders of the others.
  void UpdateFollowers();

  void StartUrgent();
  bool MayGiveWay(const Ranked& victim, const Ranked& urgent) const;
  // Fills candidates_ with the running ones that may be preempted for it.
  void FindVictims(const Ranked& urgent);
  // Whether it can start now, some of candidates_ having given way.
  bool MakeSpace(const Ranked& urgent, int places);

  void PlanDecodes();
  // True once `sequence`, the ranked_[index], has blocks for its next position; false: it was
  // preempted.
  bool MakeRoom(size_t index);
  void Preempt(const Sequence* victim, PreemptReason reason);

  void PlanRest();
  // Starts the first of the line, or passes it by; false: nobody starts any more in this step.
  bool TakeFirst();
  BlockedBy WhatBlocks(const Ranked& first, const CachedPrefix& prefix) const;
  // Of this step's budget something is left for a sequence that starts there.
  bool HasBudget(const Sequence& sequence, const CachedPrefix& prefix) const;
  bool IsLong(const Sequence& sequence, int32_t computed) const {
    return options_.long_prefill_threshold > 0 &&
           sequence.num_ids() - computed > options_.long_prefill_threshold;
  }
  // How many run that came after the sequence.
  int LaterRunning(const Sequence& sequence) const;
  void Block(Sequence* head, BlockedBy rule);
  // Whether the sequence waits for another one from now on.
  bool Follow(Sequence* sequence, CachedPrefix* prefix);
  void Start(const Ranked& ranked, CachedPrefix* prefix);
  void Give(Sequence* sequence, int32_t num_tokens);
  void GiveChunk(Sequence* sequence);
  void NumberBatch();
  void Pad();
  int32_t rows_left() const { return options_.max_num_batched_tokens - schedule_.num_rows(); }

  const SchedulerOptions options_;
  const int max_running_;
  SchedulingPolicy* const policy_;
  KvCacheManager* const kv_;
  SequenceMover* const mover_;
  StepCost cost_;
  QueueLoad load_;
  BatchFormer former_;
  StaticPadding padding_;
  PrefillBudget budget_;
  Promotion promotion_;
  UrgentSteps urgent_;

  int limit_;
  bool flush_ = false;
  std::vector<Sequence*> queue_;    // Waiting and preempted, in no order: ranks may change.
  std::vector<Sequence*> running_;  // Prefilling, fetching and decoding, in no order.
  int num_preempted_ = 0;
  int num_fetching_ = 0;
  bool batch_runs_ = false;  // Not continuous: some of its members may not have ended.
  uint64_t batch_ = 0;       // The newest batch's number.
  int32_t batch_size_ = 0;   // Not continuous: of its members, also those that have ended.

  // Of the step being planned; members so that a step allocates nothing once they have grown.
  Schedule schedule_;
  std::vector<Ranked> ranked_;  // The running ones in rank order.
  WaitingLine line_;            // Those of the queue that follow nobody.
  std::vector<const Sequence*> candidates_;
  std::vector<Ranked> passed_;  // Promoted ones that others may pass.
  TimePoint now_{};
  size_t next_hint_ = 0;      // Of the queue.
  int new_places_ = 0;        // Never-started ones that may start in this step.
  double decode_cost_ = 0.0;  // Of the step's decodes; 0: there are none.
  bool short_of_blocks_ = false;
  double positions_ = 0.0;  // Attended by the step's rows.
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_SCHEDULER_H_
