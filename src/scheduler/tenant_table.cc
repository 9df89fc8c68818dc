#include "scheduler/tenant_table.h"

#include <limits>

namespace ropeway::scheduler {

void TenantTable::Enter(core::Sequence* sequence) {
  const std::string name = apart_ ? sequence->request.tenant : std::string();
  auto it = index_.find(name);
  if (it == index_.end()) {
    if (tenants_.size() == tenants_.capacity()) tenants_.reserve(2 * tenants_.size() + 4);
    free_.reserve(tenants_.capacity());  // Leave must not throw.
    const int32_t index = free_.empty() ? static_cast<int32_t>(tenants_.size()) : free_.back();
    it = index_.emplace(name, index).first;
    if (free_.empty()) {
      tenants_.emplace_back();
    } else {
      free_.pop_back();
    }
  }
  sequence->sched.tenant = it->second;
  Tenant& tenant = Of(*sequence);
  ++tenant.sequences;
  tenant.weight = sequence->request.tenant_weight;
}

void TenantTable::Leave(const core::Sequence& sequence) {
  if (--Of(sequence).sequences > 0) return;
  Of(sequence) = {};
  free_.push_back(sequence.sched.tenant);
  if (apart_) {
    index_.erase(sequence.request.tenant);
  } else {
    index_.clear();
  }
}

int64_t TenantTable::ServiceOf(const core::Sequence& sequence) {
  Tenant& tenant = Of(sequence);
  if (tenant.as_of != as_of_) {
    tenant.as_of = as_of_;
    tenant.service = policy_->ServiceOf(sequence);
  }
  return tenant.service;
}

void TenantTable::NoteAboveShare(std::span<core::Sequence* const> queue,
                                 base::TimePoint last_step) {
  ++as_of_;
  int64_t least = std::numeric_limits<int64_t>::max();
  if (several()) {
    for (const core::Sequence* sequence : queue) {
      // The policy has not seen those that came since: their tenant's service may still be lifted.
      if (sequence->sched.queued_since < last_step) least = std::min(least, ServiceOf(*sequence));
    }
  }
  const bool any = least != std::numeric_limits<int64_t>::max();
  for (core::Sequence* sequence : queue) {
    sequence->sched.above_share = any && ServiceOf(*sequence) - least >= policy::kServiceQuantum;
  }
}

void TenantTable::BeginStep(std::span<core::Sequence* const> running, uint64_t step, int slots) {
  ++as_of_;
  step_ = step;
  slots_ = std::max(slots, 1);
  blocks_ = std::max(kv_->pool().num_blocks(), 1);
  for (Tenant& tenant : tenants_) {
    tenant.slots = tenant.busy = 0;
    tenant.blocks = 0.0;
    tenant.prefills = false;
    tenant.first = {};
  }
  for (core::Sequence* sequence : running) {
    sequence->sched.held_blocks = kv_->HeldBlocks(*sequence);
    Hold(*sequence);
  }
}

void TenantTable::Hold(const core::Sequence& sequence) {
  Tenant& tenant = Of(sequence);
  ++tenant.slots;
  tenant.busy += IsBusy(sequence) ? 1 : 0;
  tenant.blocks += sequence.sched.held_blocks;
}

void TenantTable::Release(const core::Sequence& sequence) {
  Tenant& tenant = Of(sequence);
  --tenant.slots;
  tenant.busy -= IsBusy(sequence) ? 1 : 0;
  tenant.blocks = tenant.slots > 0 ? tenant.blocks - sequence.sched.held_blocks : 0.0;
}

bool TenantTable::MayGiveWay(const core::Sequence& running) const {
  const auto steps = static_cast<int64_t>(step_ - running.sched.started_step);
  return steps >= kMinRunSteps + 2 * int64_t{running.sched.again_steps};
}

bool TenantTable::TakesFirstSlot(const core::Sequence& waiting,
                                 const core::Sequence& running) const {
  return Of(waiting).slots == 0 && Of(running).slots > 1;
}

bool TenantTable::IsBelow(const core::Sequence& waiting, const core::Sequence& running) {
  const int64_t quantum = TakesFirstSlot(waiting, running) ? 0 : policy::kServiceQuantum;
  return waiting.sched.tenant != running.sched.tenant &&
         ServiceOf(running) - ServiceOf(waiting) >= quantum &&
         policy_->ClassOrderOf(waiting) <= policy_->ClassOrderOf(running) &&
         ShareOf(running) > ShareOf(waiting);
}

bool TenantTable::GivesTurn(const core::Sequence& running, const core::Sequence& waiting) {
  if (!IsBelow(waiting, running)) return false;
  if (MayGiveWay(running)) return true;
  // For a tenant's first slot also one that has begun a step before: what is kept in the cache
  // costs little to resume.
  return TakesFirstSlot(waiting, running) && running.sched.started_step < step_ &&
         kv_->KeepsBlocksOf(running);
}

bool TenantTable::GivesInTurn(const core::Sequence& running, const core::Sequence& waiting) {
  if (running.sched.tenant == waiting.sched.tenant) return true;
  // Its tenant would take the last slot back at once.
  if (Of(running).slots == 1 && Of(waiting).slots > 0) return false;
  return ServiceOf(running) >= ServiceOf(waiting);
}

}  // namespace ropeway::scheduler
