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
#include "scheduler/batch_former.h"

namespace ropeway::gateway {

// Of the policy; or as long as it takes until a new request may start, if that is less.
inline constexpr base::Duration kDispatchStep = std::chrono::milliseconds(25);

struct DispatchOptions {
  QueueOptions queue;

  // --dispatch batch: requests go out in batches instead of one by one as places are free.
  bool batches = false;
  bool enable_batching = true;  // false: strictly one at a time, whatever `batches` is.
  int max_batch_size = 8;
  base::Duration max_batch_wait = std::chrono::milliseconds(50);
  int max_parallel_batches = 1;

  // No replica is alive: 0: requests that wait are ended at once; else after so long.
  base::Duration hold_timeout{};
  // A replica that gives nothing for so long after it was sent a request, or after its last output
  // for it, is taken to hang; 0: never. The second one also bounds the first where a stream is
  // taken up, and at a replica that is out because its probes fail. OnAlive counts as output.
  base::Duration first_byte_timeout{};
  base::Duration idle_timeout{};
  int max_retries = 3;  // Of one request.
  RetryBudgetOptions retries;
  int max_resumptions = 3;  // Of one request.
  // How long a stream that was cut waits for a replica that can go on with it, at most.
  base::Duration resume_wait = std::chrono::seconds(30);
  // How long a request is passed by others while the replica that holds its prompt's cache has no
  // free place and another one has; 0: it takes the other one at once. Not of class high.
  base::Duration affinity_wait = std::chrono::milliseconds(500);

  std::vector<ReplicaOptions> replicas;
  ReplicaRules rules;

  // One by one, as places are free.
  bool continuous() const { return enable_batching && !batches; }
  scheduler::BatchFormerOptions former() const;
  // InvalidArgument with the field at fault, as its flag or TOML key is named.
  Status Validate() const;
  // With what follows from the ways in which requests go out. REQUIRES: Validate() is OK.
  DispatchOptions Resolved() const;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_OPTIONS_H_
