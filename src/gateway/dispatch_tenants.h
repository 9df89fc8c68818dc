// The tenants of a dispatcher's requests: what each has, and what its share of the places is.
#ifndef ROPEWAY_GATEWAY_DISPATCH_TENANTS_H_
#define ROPEWAY_GATEWAY_DISPATCH_TENANTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/replicas.h"

namespace ropeway::gateway {

// Thread rule: the dispatcher's.
class DispatchTenants {
 public:
  // A tenant with requests; it stays where it is until its last one has left.
  struct Tenant {
    double weight = 1.0;  // Of its newest request.
    int requests = 0;
    int urgent = 0;         // Of these, of class high without an attempt under way.
    int running = 0;        // Of these, with an attempt under way,
    std::vector<int> at;    // by replica.
    ReplicaMask there = 0;  // Replicas with such an attempt.
    bool is_newcomer() const { return requests > 0 && running == 0; }
  };
  using ByName = std::map<std::string, Tenant, std::less<>>;

  // `expected`: tenants that may send requests, as far as is known; one alone has all places.
  DispatchTenants(int expected, size_t replicas) : expected_(expected), replicas_(replicas) {}

  // A request comes. Throws std::bad_alloc with nothing changed.
  Tenant* Enter(const std::string& name, double weight);
  // It ends. REQUIRES: it is in no queue and at no replica.
  void Leave(const std::string& name);
  // A request of class high enters the queue (1), or leaves it (-1).
  void CountUrgent(Tenant* tenant, int by) {
    tenant->urgent += by;
    urgent_ += by;
  }
  // An attempt is sent to the replica (1), or over there (-1).
  void CountAttempt(Tenant* tenant, int replica, int by);

  // Places are divided between tenants.
  bool divides() const { return expected_ > 1; }
  // A tenant of which nothing runs may yet come.
  bool expects_newcomers() const {
    return divides() && static_cast<int>(all_.size()) - newcomers_ < expected_;
  }
  // With one place more, of `limit`, the tenant would have more than its share, by the weights of
  // those that have requests. The first one is always within it.
  bool HasItsShare(const Tenant& tenant, int limit) const;

  const ByName& all() const { return all_; }
  int newcomers() const { return newcomers_; }  // Of these, of which nothing runs.
  int urgent() const { return urgent_; }        // Requests in the queue.
  // One like it without requests, to count them again.
  DispatchTenants Empty() const { return {expected_, replicas_}; }
  // Whether both count the same, but for the weights.
  bool CountsAs(const DispatchTenants& other) const;

 private:
  const int expected_;
  const size_t replicas_;
  ByName all_;
  int newcomers_ = 0;
  int urgent_ = 0;
  double weights_ = 0.0;  // Of all of them.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_TENANTS_H_
