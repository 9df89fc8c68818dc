// Decides what one step computes.
#ifndef ROPEWAY_SCHEDULER_SCHEDULER_H_
#define ROPEWAY_SCHEDULER_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/device_profile.h"
#include "core/sequence.h"
#include "core/sequence_state.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "ropeway/status.h"
#include "scheduler/admission.h"
#include "scheduler/batch_former.h"
#include "scheduler/cost_model.h"
#include "scheduler/preemption.h"
#include "scheduler/prefill_budget.h"
#include "scheduler/queue_load.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/scheduler_output.h"
#include "scheduler/slots.h"
#include "scheduler/tenant_table.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// Accounts for slots, tokens and blocks; the policy ranks. Schedule says what a step does in which
// order; the rules of each part stand at its class.
//
// Every sequence makes progress. There are at most max_num_batched_tokens slots, so each decoding
// sequence gets its token (after at most four urgent steps, and as its turn to be sampled comes),
// and the first prefilling one at least one. A sequence that waits (in the queue, or running
// without a chunk) is aged after max_wait and goes before all later arrivals, in up to half the
// slots (rounded up). Until it decodes and has run for kMinRunSteps, an aged sequence is preempted
// only for memory, and only if all others are aged too.
//
// Aging is an order within a tenant and between classes. So an aged sequence gives way to another
// tenant as all do, and a sequence does not age while its tenant is above another one's share.
//
// Thread rule: the engine thread. Sequences belong to the caller and must outlive their stay.
class Scheduler final : public AdmissionQueue {
 public:
  // REQUIRES: CheckSchedulingOptions(options) is OK, and max_wait (QueueOptions) is above 0. The
  // others must outlive it.
  Scheduler(const SchedulingOptions& options, base::Duration max_wait, const StepOptions& step,
            policy::SchedulingPolicy* policy, kvcache::KvCacheManager* kv,
            core::SequenceMover* mover);

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
  void FetchDone(core::Sequence* sequence) { slots_.FetchDone(sequence); }

  // Schedules the next step: moves states and allocates blocks accordingly. The reply is valid
  // until the next call. It has no items only if there is no sequence, a batch fills (next_look),
  // all running sequences fetch, or a block was leaked.
  const SchedulerOutput& Schedule(base::TimePoint now);

  // The last scheduled step took `took`. With its result, before that changes any sequence: what
  // sampling took of it is learned too.
  void OnStep(base::Duration took, const core::StepResult& result);
  void OnStep(base::Duration took) { OnStep(took, core::StepResult{}); }

  // Limits the sequences that run at once from now on, to at least one; running ones go on.
  void set_limit(int limit) { slots_.set_limit(limit); }
  int limit() const { return slots_.limit(); }
  // No more sequences will come: a batch that fills begins.
  void set_flush(bool flush) { batches_.set_flush(flush); }

  // Waiting and preempted sequences, and those that run; unordered.
  std::span<core::Sequence* const> queue() const { return slots_.queue(); }
  std::span<core::Sequence* const> running() const { return slots_.running(); }
  bool empty() const { return queue().empty() && running().empty(); }
  // The number of queued sequences that rank before this queued one, as of the last step.
  int32_t PositionOf(const core::Sequence& sequence) const {
    return order_.PositionOf(sequence, queue());
  }
  // The ids of the queue in the order of the last step. O(n log n); throws std::bad_alloc.
  std::vector<uint64_t> QueueOrder() const { return order_.IdsOf(queue()); }
  bool StartsAtOnce(const core::Job& /*job*/) const override {
    return queue().empty() && slots_.num_running() < slots_.limit();
  }
  // The load, which predicts waits. Throws std::bad_alloc.
  void View(LoadView* view) const override;
  Work WorkOf(const core::Job& job) const override { return load_.WorkOf(job); }
  const StepCost& step_cost() const { return costs_.step(); }

  // See Slots::CheckIntegrity.
  Status CheckIntegrity() const { return slots_.CheckIntegrity(); }

 private:
  // The phases of Schedule.
  void LookAround(base::TimePoint now);
  void ScheduleDecodes();
  void SchedulePrefills();
  // Charges slots of running sequences that have no work in this step.
  void ChargeIdle();

  // What a step may cost as far as prompts decide, where tenants have names: what the device's
  // longest_step allows, but its efficient_step at least. Another tenant's request may come
  // meanwhile, and waits for the step's end.
  double StepLimit() const;
  // Starts the first of the queue, or passes it; false: no more start in this step.
  bool StartFirst();
  BlockedBy WhatBlocks(const core::Sequence& first, const kvcache::CachedPrefix& prefix) const;
  // The step's budget has something left for a sequence that starts after `prefix`.
  bool HasBudget(const core::Sequence& sequence, const kvcache::CachedPrefix& prefix) const;
  void NoteBlocked(core::Sequence* head, BlockedBy rule);

  // Adds work to the step.
  void AddChunk(core::Sequence* sequence);
  void AddItem(core::Sequence* sequence, int32_t num_tokens);
  int32_t rows_left() const { return options_.max_num_batched_tokens - output_.num_rows(); }

  const SchedulingOptions options_;
  const int32_t long_rope_above_;
  const bool whole_prompts_;
  const core::DeviceProfile device_;
  policy::SchedulingPolicy* const policy_;
  kvcache::KvCacheManager* const kv_;
  // What lasts from step to step: costs, load, tenants, and the sequences that wait or run.
  CostModel costs_;
  QueueLoad load_;
  TenantTable tenants_;
  SchedulerOutput output_;  // Of the step.
  Aging aging_;
  Slots slots_;
  Batches batches_;
  // What a phase needs, each with its scratch memory, so that a step allocates nothing.
  StepOrder order_;
  UrgentSteps urgent_;
  Takeover takeover_;
  SamplingTurns sampling_;
  MemoryPreemption memory_;
  PrefillBudget budget_;
  PassedAged passed_;  // Behind a running batch.
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_SCHEDULER_H_
