#include "gateway/dispatch_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "policy/policies.h"
#include "scheduler/queue_options.h"

namespace ropeway::gateway {
namespace {

Status BadDispatchOption(const std::string& field, const std::string& expected) {
  return InvalidArgument(field + ": expected " + expected, field);
}

Status ValidateReplicas(const std::vector<BackendOptions>& replicas, int most_places) {
  if (replicas.empty()) return InvalidArgument("a model needs at least one backend", "backend");
  if (replicas.size() > kMaxReplicas) {
    return InvalidArgument(
        fmt::format("a model can have at most {} backends, not {}", kMaxReplicas, replicas.size()),
        "backend");
  }
  std::unordered_set<std::string_view> names;
  for (const BackendOptions& one : replicas) {
    if (!names.insert(one.name).second) {
      return InvalidArgument(fmt::format("the backend {} is given twice", one.name), "backend");
    }
    // Written so that it is true for NaN too.
    if (!(one.weight >= 0.01 && one.weight <= 100.0)) {
      return InvalidArgument(
          fmt::format("weight of the backend {}: expected 0.01 to 100", one.name), "weight");
    }
    if (one.max_concurrency < 0) {
      return InvalidArgument(
          fmt::format("max-concurrency of the backend {}: expected at least 0", one.name),
          "max-concurrency");
    }
    const int most = one.max_concurrency > 0 ? one.max_concurrency : most_places;
    if (one.min_concurrency < 0 || one.min_concurrency > most) {
      return InvalidArgument(fmt::format("min-concurrency of the backend {}: expected 0 to {}, its "
                                         "max-concurrency",
                                         one.name, most),
                             "min-concurrency");
    }
  }
  return {};
}

}  // namespace

Status DispatchOptions::Validate() const {
  const PlacesOptions& places = rules.places;
  const bool in_order = 1 <= places.least && places.least <= places.start &&
                        places.start <= places.most && places.most <= 100'000;
  if (!in_order) return BadDispatchOption("places", "1 <= least <= start <= most <= 100000");
  if (rules.tenants < 1) return BadDispatchOption("tenants", "at least 1");
  if (Status status = ValidateReplicas(replicas, places.most); !status.ok()) return status;
  if (Status status = scheduler::CheckQueueOptions(queue); !status.ok()) return status;
  if (batching.max_batch_size < 1) return BadDispatchOption("max-batch-size", "at least 1");
  if (batching.max_batch_wait.count() < 0) return BadDispatchOption("max-batch-wait", "at least 0");
  if (batching.max_parallel_batches < 1) {
    return BadDispatchOption("max-parallel-batches", "at least 1");
  }
  if (failover.hold_timeout.count() < 0) return BadDispatchOption("hold-timeout", "at least 0");
  if (failover.first_byte_timeout.count() < 0 || failover.idle_timeout.count() < 0) {
    return BadDispatchOption("backend-idle-timeout", "at least 0");
  }
  if (!(retries.part >= 0.0 && retries.part <= 1.0)) {
    return BadDispatchOption("retry-part", "0 to 1");
  }
  if (!(retries.per_second > 0.0 && retries.per_second <= 1e6)) {
    return BadDispatchOption("retries-per-second", "above 0");
  }
  return {};
}

SchedulingOptions DispatchOptions::former() const {
  SchedulingOptions former;
  if (in_batches()) former.strategy = "dynamic";
  if (!batching.enable_batching) former.strategy = "serial";
  former.max_batch_size = batching.max_batch_size;
  former.batch_timeout = batching.max_batch_wait;
  return former;
}

DispatchOptions DispatchOptions::Resolved() const {
  DispatchOptions options = *this;
  // Places are divided between tenants only where the order is.
  const bool fair = (*policy::MakePolicy(queue))->is_fair();
  if (!fair || !continuous()) options.rules.tenants = 1;
  if (!batching.enable_batching) options.batching.max_parallel_batches = 1;
  if (!batching.enable_batching || !in_batches()) return options;
  // A batch goes out together: there are places for it from the start, until it shows that there
  // are not.
  PlacesOptions& places = options.rules.places;
  const int64_t wanted = int64_t{batching.max_batch_size} * batching.max_parallel_batches;
  places.start = static_cast<int>(std::clamp<int64_t>(wanted, places.start, places.most));
  return options;
}

}  // namespace ropeway::gateway
