#include "gateway/dispatch_places.h"

#include <algorithm>
#include <bit>

namespace ropeway::gateway {

DispatchPlaces::Free DispatchPlaces::FreeAt(base::TimePoint now, bool beyond) const {
  Free free{.newcomers = replicas_.Free(now, {.newcomer = true, .beyond = beyond}),
            .others = replicas_.Free(now, {.newcomer = false, .beyond = beyond})};
  if (!tenants_.expects_newcomers()) return free;
  const ReplicaMask left = replicas_.KeepingTogether(now) & free.newcomers;
  if (std::popcount(left) == 1) free.last = left;
  return free;
}

ReplicaMask DispatchPlaces::For(const DispatchEntry& entry, const Free& free, bool beyond) const {
  ReplicaMask mask = free.For(entry.tenant->there);
  if (beyond && !entry.is_urgent()) mask &= replicas_.Sharing();
  return mask & Allowed(entry);
}

bool DispatchPlaces::AnyFree(base::TimePoint now) const {
  const Free free = FreeAt(now, false);
  if (!tenants_.divides() || free.newcomers == 0) return free.others != 0;
  return std::any_of(tenants_.all().begin(), tenants_.all().end(), [&](const auto& named) {
    const DispatchTenants::Tenant& tenant = named.second;
    return tenant.requests > tenant.running && free.For(tenant.there) != 0;
  });
}

bool DispatchPlaces::AnyBeyond(base::TimePoint now) const {
  const bool newcomers = tenants_.divides() && tenants_.newcomers() > 0;
  if (tenants_.urgent() == 0 && !newcomers) return false;
  const Free free = FreeAt(now, true);
  if (free.newcomers == 0 || replicas_.free_places(now, {.newcomer = true, .beyond = true}) <=
                                 replicas_.free_places(now)) {
    return false;
  }
  const ReplicaMask sharing = tenants_.divides() ? free.newcomers & replicas_.Sharing() : 0;
  return std::any_of(tenants_.all().begin(), tenants_.all().end(), [&](const auto& named) {
    const DispatchTenants::Tenant& tenant = named.second;
    return (tenant.urgent > 0 && free.For(tenant.there) != 0) ||
           (tenant.is_newcomer() && sharing != 0);
  });
}

scheduler::NewcomerPlaces DispatchPlaces::ForNewcomers(base::TimePoint now) const {
  scheduler::NewcomerPlaces places;
  if (!tenants_.divides()) return places;
  places.slots = replicas_.kept_places(now);
  if (tenants_.expects_newcomers() && replicas_.KeepingTogether(now) != 0) ++places.slots;
  places.free = replicas_.newcomer_places(now);
  places.kept = places.slots > 0 || replicas_.Sharing() != 0;
  return places;
}

}  // namespace ropeway::gateway
