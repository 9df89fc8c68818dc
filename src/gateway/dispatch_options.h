// How one model's requests are dispatched to its replicas.
#ifndef ROPEWAY_GATEWAY_DISPATCH_OPTIONS_H_
#define ROPEWAY_GATEWAY_DISPATCH_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "gateway/replicas.h"
#include "gateway/retry_budget.h"
#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::gateway {

// Of the policy; or as long as it takes until a new request may start, if that is less.
inline constexpr base::Duration kDispatchStep = std::chrono::milliseconds(25);

struct DispatchOptions {
  QueueOptions queue;
  GatewayBatching batching;
  FailoverOptions failover;
  RetryBudgetOptions retries;
  // How long a stream that was cut waits for a replica that can go on with it, at most.
  base::Duration resume_wait = std::chrono::seconds(30);
  // How long a request is passed by others while the replica that holds its prompt's cache has no
  // free place and another one has; 0: it takes the other one at once. Not of class high.
  base::Duration affinity_wait = std::chrono::milliseconds(500);

  std::vector<BackendOptions> replicas;
  ReplicaRules rules;

  // Whether requests are sent one by one, as places are free.
  bool continuous() const { return batching.enable_batching && !in_batches(); }
  // In batches, if batching is on.
  bool in_batches() const { return batching.dispatch == "batch"; }
  // How its batches form.
  SchedulingOptions former() const;
  // InvalidArgument with the field at fault, as its flag or TOML key is named.
  Status Validate() const;
  // With what follows from the ways in which requests go out. REQUIRES: Validate() is OK.
  DispatchOptions Resolved() const;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_OPTIONS_H_
