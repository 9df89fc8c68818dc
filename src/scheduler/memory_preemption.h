// Preemption of running sequences for the next block of another one.
#ifndef ROPEWAY_SCHEDULER_MEMORY_PREEMPTION_H_
#define ROPEWAY_SCHEDULER_MEMORY_PREEMPTION_H_

#include <cstddef>
#include <span>
#include <vector>

#include "core/sequence.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "scheduler/slots.h"
#include "scheduler/tenant_table.h"
#include "scheduler/waiting_queue.h"

namespace ropeway::scheduler {

// If a block is missing, the policy's victims among the running sequences without work in this step
// are preempted, until there is a block or the sequence itself was the victim; with several
// tenants, of the lowest class those of the tenant that holds the most, and of these the ones that
// may give way, if there are any. An aged sequence is preempted only if all others are aged too.
//
// Thread rule: the scheduler's.
class MemoryPreemption {
 public:
  // `has_classes`: the policy's first key is the class. The others must outlive it.
  MemoryPreemption(bool has_classes, const policy::SchedulingPolicy* policy,
                   kvcache::KvCacheManager* kv, const TenantTable* tenants, Slots* slots);

  // Gives the decode running[index] blocks for its next position; false: it was preempted itself.
  // The decodes before it have work already.
  bool Extend(std::span<const Ranked> running, size_t index);
  // No prompt has the blocks of its layers with windows for a token more, so that the step would
  // compute nothing: gives them to this one. False: there are no others to preempt.
  bool Cover(core::Sequence* prefill);

 private:
  void PreemptOne();
  void KeepLargestHolder();

  const bool has_classes_;
  const policy::SchedulingPolicy* const policy_;
  kvcache::KvCacheManager* const kv_;
  const TenantTable* const tenants_;
  Slots* const slots_;
  std::vector<core::Sequence*> candidates_;  // A member to avoid allocation.
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_MEMORY_PREEMPTION_H_
