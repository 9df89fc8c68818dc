#include "gateway/dispatch_tenants.h"

#include <algorithm>

namespace ropeway::gateway {

DispatchTenants::Tenant* DispatchTenants::Enter(const std::string& name, double weight) {
  std::vector<int> at(replicas_);
  const auto [found, is_new] = all_.try_emplace(name);
  Tenant* const tenant = &found->second;
  if (is_new) tenant->at = std::move(at);
  weights_ += weight - (is_new ? 0.0 : tenant->weight);
  newcomers_ += is_new ? 1 : 0;
  tenant->weight = weight;
  ++tenant->requests;
  return tenant;
}

void DispatchTenants::Leave(const std::string& name) {
  const auto found = all_.find(name);
  if (--found->second.requests > 0) return;
  weights_ -= found->second.weight;
  --newcomers_;
  all_.erase(found);
  if (all_.empty()) weights_ = 0.0;  // Drops what rounding has left.
}

void DispatchTenants::CountAttempt(Tenant* tenant, int replica, int by) {
  newcomers_ -= tenant->is_newcomer() ? 1 : 0;
  tenant->running += by;
  newcomers_ += tenant->is_newcomer() ? 1 : 0;
  const int there = tenant->at[static_cast<size_t>(replica)] += by;
  tenant->there = there > 0 ? tenant->there | MaskOf(replica) : tenant->there & ~MaskOf(replica);
}

bool DispatchTenants::HasItsShare(const Tenant& tenant, int limit) const {
  // Not one less for a sum that is rounded up.
  constexpr double kRounding = 1.0 + 1e-9;
  return divides() && tenant.running > 0 &&
         (tenant.running + 1) * weights_ > kRounding * limit * tenant.weight;
}

bool DispatchTenants::CountsAs(const DispatchTenants& other) const {
  const auto same = [](const ByName::value_type& a, const ByName::value_type& b) {
    const auto& [name, its] = a;
    const Tenant& theirs = b.second;
    return name == b.first && its.requests == theirs.requests && its.urgent == theirs.urgent &&
           its.running == theirs.running && its.at == theirs.at && its.there == theirs.there;
  };
  return newcomers_ == other.newcomers_ && urgent_ == other.urgent_ &&
         std::equal(all_.begin(), all_.end(), other.all_.begin(), other.all_.end(), same);
}

}  // namespace ropeway::gateway
