// The tenants of the scheduler's sequences: what each holds in a step.
#ifndef ROPEWAY_SCHEDULER_TENANT_TABLE_H_
#define ROPEWAY_SCHEDULER_TENANT_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/sequence.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// Thread rule: the scheduler's.
class TenantTable {
 public:
  struct Tenant {
    double weight = 1.0;    // Of its newest sequence.
    int32_t sequences = 0;  // That wait or run.
    // Of the step, as far as it is scheduled:
    int32_t slots = 0;      // its running sequences,
    int32_t busy = 0;       // those of them that do not give way yet,
    double blocks = 0.0;    // their blocks, shared ones in part,
    bool prefills = false;  // and whether one of them computes some of its prompt.
    int64_t service = 0;    // SchedulingPolicy::ServiceOf,
    uint64_t as_of = 0;     // as of this time (Scheduler::ServiceOf).
    Ranked first;           // Of its sequences in the queue, without followers; null: none.
  };

  // `apart`: tenants are told apart; else all sequences belong to one.
  explicit TenantTable(bool apart) : apart_(apart) {}

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
  std::vector<Tenant>& all() { return tenants_; }
  const std::vector<Tenant>& all() const { return tenants_; }
  bool several() const { return index_.size() > 1; }
  // Whether any has a name: then requests of others may come.
  bool named() const { return index_.size() > index_.count(std::string()); }

  // Begins a step with so many slots and KV blocks, of which none is held yet.
  void BeginStep(int slots, int32_t blocks);
  // The sequence runs, or no longer.
  void Hold(const core::Sequence& sequence, bool busy);
  void Release(const core::Sequence& sequence, bool busy);

  // The part of the slots that the tenant holds, or of the blocks, if that is more, at weight 1:
  // its dominant share (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011).
  double Share(const Tenant& tenant) const {
    return std::max(tenant.slots / slots_, tenant.blocks / blocks_) / tenant.weight;
  }
  double ShareOf(const core::Sequence& sequence) const { return Share(Of(sequence)); }

 private:
  const bool apart_;
  std::unordered_map<std::string, int32_t> index_;
  std::vector<Tenant> tenants_;
  std::vector<int32_t> free_;  // Indices without sequences.
  double slots_ = 1.0;
  double blocks_ = 1.0;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_TENANT_TABLE_H_
