#include "scheduler/tenant_table.h"

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

void TenantTable::BeginStep(int slots, int32_t blocks) {
  slots_ = std::max(slots, 1);
  blocks_ = std::max(blocks, 1);
  for (Tenant& tenant : tenants_) {
    tenant.slots = tenant.busy = 0;
    tenant.blocks = 0.0;
    tenant.prefills = false;
    tenant.first = {};
  }
}

void TenantTable::Hold(const core::Sequence& sequence, bool busy) {
  Tenant& tenant = Of(sequence);
  ++tenant.slots;
  tenant.busy += busy ? 1 : 0;
  tenant.blocks += sequence.sched.held_blocks;
}

void TenantTable::Release(const core::Sequence& sequence, bool busy) {
  Tenant& tenant = Of(sequence);
  --tenant.slots;
  tenant.busy -= busy ? 1 : 0;
  tenant.blocks = tenant.slots > 0 ? tenant.blocks - sequence.sched.held_blocks : 0.0;
}

}  // namespace ropeway::scheduler
