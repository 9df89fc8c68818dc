// The tenants of the scheduler's sequences: what each holds in a step, and which give way to
// others.
#ifndef ROPEWAY_SCHEDULER_TENANT_TABLE_H_
#define ROPEWAY_SCHEDULER_TENANT_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// Tenants preempt each other only so often, because each time their service gets closer: the tenant
// with the least service never gives way.
//
// Thread rule: the scheduler's.
class TenantTable {
 public:
  struct Tenant {
    double weight = 1.0;    // Its newest sequence's.
    int32_t sequences = 0;  // That wait or run.
    // The members below are of the step, as far as it is scheduled.
    int32_t slots = 0;      // Running sequences.
    int32_t busy = 0;       // Running sequences that do not give way yet.
    double blocks = 0.0;    // Blocks of running sequences, shared ones in part.
    bool prefills = false;  // Some running sequence computes a part of its prompt.
    int64_t service = 0;    // SchedulingPolicy::ServiceOf, when as_of_ was `as_of`.
    uint64_t as_of = 0;
    Ranked first;  // Its first sequence in the queue, without followers; null: none.
  };

  // Tenants are told apart if the policy divides service between them; else all sequences belong to
  // one. Both must outlive it.
  TenantTable(const policy::SchedulingPolicy* policy, const kvcache::KvCacheManager* kv)
      : policy_(policy), kv_(kv), apart_(policy->is_fair()) {}

  // Sets SchedulingState::tenant. Throws std::bad_alloc with nothing changed.
  void Enter(core::Sequence* sequence);
  void Leave(const core::Sequence& sequence);

  Tenant& Of(const core::Sequence& sequence) {
    return tenants_[static_cast<size_t>(sequence.sched.tenant)];
  }
  const Tenant& Of(const core::Sequence& sequence) const {
    return tenants_[static_cast<size_t>(sequence.sched.tenant)];
  }
  // By index. Those without sequences hold nothing.
  const std::vector<Tenant>& all() const { return tenants_; }
  bool several() const { return index_.size() > 1; }
  // Whether any has a name: then requests of others may come.
  bool named() const { return index_.size() > index_.count(std::string()); }

  // Sets SchedulingState::above_share of the queue as of the end of the last step, which began at
  // `last_step`.
  void NoteAboveShare(std::span<core::Sequence* const> queue, base::TimePoint last_step);
  // Begins a step, after the policy has, with so many slots. `step`: its number.
  void BeginStep(std::span<core::Sequence* const> running, uint64_t step, int slots);
  // The sequence runs from now on, with SchedulingState::held_blocks, or no longer.
  void Hold(const core::Sequence& sequence);
  void Release(const core::Sequence& sequence);

  // The part of the slots that the tenant holds, or of the blocks, if that is more, at weight 1:
  // its dominant share (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011).
  double ShareOf(const core::Sequence& sequence) const {
    const Tenant& tenant = Of(sequence);
    return std::max(tenant.slots / slots_, tenant.blocks / blocks_) / tenant.weight;
  }
  // The slots' worth of the blocks that the running sequence holds.
  double HeldSlots(const core::Sequence& sequence) const {
    return sequence.sched.held_blocks * slots_ / blocks_;
  }
  // The policy's, as of the step's begin.
  int64_t ServiceOf(const core::Sequence& sequence);

  // Whether the running sequence is there for kMinRunSteps, and twice as many as it computed again
  // what was lost: so turns cost at most half the work even where the pool is too small to keep it.
  bool MayGiveWay(const core::Sequence& running) const;
  bool IsBusy(const core::Sequence& running) const {
    return running.sched.aged || !MayGiveWay(running);
  }
  // Whether the running sequence's tenant has had a quantum more service than the waiting one's,
  // and holds more, and its class does not go first.
  bool IsBelow(const core::Sequence& waiting, const core::Sequence& running);
  // Whether the running sequence gives its slot and blocks in that turn, as far as its tenant has
  // not given others: it may give way, or began in an earlier step and its tenant keeps another.
  bool GivesTurn(const core::Sequence& running, const core::Sequence& waiting);
  // Whether a running sequence may give its slot to one that has waited for long: of the same
  // tenant, or of one without more service.
  bool GivesInTurn(const core::Sequence& running, const core::Sequence& waiting);

 private:
  // A tenant without a slot takes its first one from a tenant that keeps another.
  bool TakesFirstSlot(const core::Sequence& waiting, const core::Sequence& running) const;

  const policy::SchedulingPolicy* const policy_;
  const kvcache::KvCacheManager* const kv_;
  const bool apart_;
  std::unordered_map<std::string, int32_t> index_;
  std::vector<Tenant> tenants_;
  std::vector<int32_t> free_;  // Indices without sequences.
  uint64_t step_ = 0;
  uint64_t as_of_ = 0;  // Changes whenever the policy's service may have.
  double slots_ = 1.0;
  double blocks_ = 1.0;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_TENANT_TABLE_H_
