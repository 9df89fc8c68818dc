// Running sequences that give their slots and blocks: for the next block of another one, and for
// sequences of the queue.
#ifndef ROPEWAY_SCHEDULER_PREEMPTION_H_
#define ROPEWAY_SCHEDULER_PREEMPTION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "core/device_profile.h"
#include "core/sequence.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "ropeway/options.h"
#include "scheduler/prefill_budget.h"
#include "scheduler/slots.h"
#include "scheduler/tenant_table.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// Makes room when a block is missing. It preempts the policy's victims among the running sequences
// without work in this step, until there is a block or the sequence itself was the victim. With
// several tenants, the victims come from the lowest class, and there from the tenant that holds the
// most; sequences that may give way come first. An aged sequence is preempted only if all others
// are aged too.
//
// Thread rule: the scheduler's.
class MemoryPreemption {
 public:
  // The others must outlive it.
  MemoryPreemption(const policy::SchedulingPolicy* policy, kvcache::KvCacheManager* kv,
                   const TenantTable* tenants, Slots* slots);

  // Gives the decode running[index] blocks for its next position; false: it was preempted itself.
  // The decodes before it have work already.
  bool Extend(std::span<const Ranked> running, size_t index);
  // Gives this prompt the blocks of its layers with windows. Call when no prompt has them for one
  // more token, so that the step would compute nothing. False: there are no others to preempt.
  bool Cover(core::Sequence* prefill);

 private:
  void PreemptOne();
  void KeepLargestHolder();

  const policy::SchedulingPolicy* const policy_;
  kvcache::KvCacheManager* const kv_;
  const TenantTable* const tenants_;
  Slots* const slots_;
  std::vector<core::Sequence*> candidates_;  // A member to avoid allocation.
};

struct DueOptions {
  base::Duration max_wait{};
  // Tokens of a prompt that a step computes at least beside decodes, about.
  int32_t chunk = core::DeviceProfile{}.mixed_prefill_budget;
};

// The sequences that must start now, so that all that wait start within max_wait of their arrival.
// Thread rule: the scheduler's.
class DueList {
 public:
  // The table must outlive it.
  DueList(const DueOptions& options, const TenantTable* tenants)
      : options_(options), tenants_(tenants) {}
  // For a queue of so many. Throws std::bad_alloc.
  void Reserve(size_t sequences);
  // The sequences that must start now: of each tenant, those that never ran and wait longest. A
  // step takes about `step_seconds`. Valid until the next call.
  std::span<core::Sequence* const> Find(std::span<core::Sequence* const> queue, base::TimePoint now,
                                        double step_seconds);

 private:
  // Whether the first of them must start now so that the others start in time one after the other.
  bool MustStart(std::span<core::Sequence* const> of_one_tenant, base::TimePoint now,
                 double step_seconds) const;

  // The steps from a sequence's start until its slot can start another one, about.
  int32_t StepsToStart(const core::Sequence& sequence) const;

  const DueOptions options_;
  const TenantTable* const tenants_;
  std::vector<core::Sequence*> due_;  // A member to avoid allocation.
};

// With continuous batching, a sequence of the queue may start before the step's decodes, in the
// place of running ones.
//
// 1. By the policy (MayPreempt), or in the place of later arrivals once it is past max_wait. Each
// such
//    sequence starts, in rank order; if a slot or blocks are missing, the policy's victims are
//    preempted. Sequences are not preempted that ran for less than kMinRunSteps since they started,
//    were preempted kMaxPreemptions times, have generated preempt_max_generated tokens, or lead
//    others. None is preempted if all of them together could not make the room. An aged sequence
//    that may preempt none is passed by the next ones (PassedAged). The first sequence starts here
//    too if there is room for it and its prompt would be urgent (UrgentSteps).
// 2. With several tenants and a policy that divides service between them, the first sequence of
//    each waiting tenant that is below another one (TenantTable::IsBelow), in the order of the
//    tenants' classes and service, wherever it stands in the queue. Sequences of the tenants above
//    it give way: the latest class, the most service and the newest first. Only sequences that do
//    not give way yet are exempt. A tenant passes another one that could not start only if it holds
//    less.
// 3. What is due (DueList), at the expense of its own tenant or of one with at least as much
//    service; half of the tenant's slots are left to those that ran longer.
//
// Thread rule: the scheduler's.
class Takeover {
 public:
  // The others must outlive it.
  Takeover(const SchedulingOptions& options, const DueOptions& due,
           const policy::SchedulingPolicy* policy, kvcache::KvCacheManager* kv,
           const UrgentSteps* urgent, TenantTable* tenants, Slots* slots);
  // For so many sequences and tenants. Throws std::bad_alloc.
  void Reserve(size_t sequences, size_t tenants);

  // What starts is in its rank among order->running then, and no longer in order->queue.
  void Run(double step_seconds, StepOrder* order);

 private:
  void StartUrgent(StepOrder* order);
  void StartBelowShare(StepOrder* order);
  void StartDue(double step_seconds, StepOrder* order);

  // Starts it, or lets it follow another one, if make_room() is true.
  template <typename MakeRoom>
  bool Take(const Ranked& urgent, StepOrder* order, MakeRoom make_room);
  bool MayBeVictim(const Ranked& victim, const Ranked& urgent);
  // Preempts candidates_ until `urgent` can start in so many slots; false if all of them do not
  // make the room. `due`: it is past max_wait, or will be.
  bool PreemptFor(core::Sequence* urgent, int slots, bool due);
  // As PreemptFor, in a turn between tenants.
  bool GiveWayTo(core::Sequence* below, int slots);
  // The order of turns: of classes, then of tenants' service.
  auto TurnOf(const core::Sequence& sequence) {
    return std::tuple(policy_->ClassOrderOf(sequence), tenants_->ServiceOf(sequence),
                      sequence.order);
  }

  const int32_t preempt_max_generated_;
  const policy::SchedulingPolicy* const policy_;
  kvcache::KvCacheManager* const kv_;
  const UrgentSteps* const urgent_;
  TenantTable* const tenants_;
  Slots* const slots_;
  DueList due_;
  // Of the step; members to avoid allocation.
  std::vector<core::Sequence*> candidates_;
  std::vector<Ranked> turns_;  // The first of each waiting tenant.
  PassedAged passed_;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_PREEMPTION_H_
