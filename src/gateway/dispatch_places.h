// Which replicas have a free place for which requests.
#ifndef ROPEWAY_GATEWAY_DISPATCH_PLACES_H_
#define ROPEWAY_GATEWAY_DISPATCH_PLACES_H_

#include "base/clock.h"
#include "gateway/dispatch_entries.h"
#include "gateway/replicas.h"
#include "scheduler/queue_load.h"

namespace ropeway::gateway {

// Reads the replicas' places, and the tenants' requests, as they are when it is asked; keeps
// nothing. See PlaceAsk for the rules. With `beyond` it tells the places for requests that may go
// beyond a replica's places: requests of class high and newcomers' requests.
class DispatchPlaces {
 public:
  // Both must outlive it.
  DispatchPlaces(const Replicas* replicas, const DispatchTenants* tenants)
      : replicas_(*replicas), tenants_(*tenants) {}

  // Replicas with a free place.
  struct Free {
    ReplicaMask newcomers = 0;
    ReplicaMask others = 0;
    // The only replica whose place is still kept for newcomers (Replicas::KeepingTogether): a
    // tenant that runs something does not get it. 0: none.
    ReplicaMask last = 0;
    // The replicas with a place for a tenant that runs something on the replicas `there`.
    ReplicaMask For(ReplicaMask there) const {
      return ((newcomers & ~there) | (others & there)) & (there != 0 ? ~last : kAllReplicas);
    }
  };
  Free FreeAt(base::TimePoint now, bool beyond) const;

  // Whether the request may go beyond the places of some replica.
  bool MayGoBeyond(const DispatchEntry& entry) const {
    return entry.is_urgent() || (tenants_.divides() && entry.tenant->is_newcomer());
  }
  // The free replicas that can take the request.
  ReplicaMask For(const DispatchEntry& entry, const Free& free, bool beyond) const;
  // The replicas that can ever take it: they may go on with what it was given.
  ReplicaMask Allowed(const DispatchEntry& entry) const {
    return entry.resumes ? replicas_.CanResume(entry.identity.get()) : kAllReplicas;
  }

  // Some request that waits could have a free place.
  bool AnyFree(base::TimePoint now) const;
  // Requests that may go beyond the places of some replica wait, and there is room for them.
  bool AnyBeyond(base::TimePoint now) const;
  // What is kept for newcomers.
  scheduler::NewcomerPlaces ForNewcomers(base::TimePoint now) const;

 private:
  const Replicas& replicas_;
  const DispatchTenants& tenants_;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_PLACES_H_
