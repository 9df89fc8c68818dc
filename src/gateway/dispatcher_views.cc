// What the dispatcher tells about itself.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "gateway/dispatcher.h"

namespace ropeway::gateway {

EngineStats Dispatcher::Stats() const {
  EngineStats stats;
  stats.enabled = options_.enable_batching;
  stats.strategy = options_.batches ? "batch" : "continuous";
  if (!options_.enable_batching) stats.strategy = "serial";
  stats.max_batch_size = options_.batches ? options_.max_batch_size : replicas_.limit(now_);
  if (!options_.enable_batching) stats.max_batch_size = 1;
  if (options_.batches && options_.enable_batching) {
    stats.max_batch_wait_ms = 1000.0 * base::ToSeconds(options_.max_batch_wait);
  }
  const BatchCounts& counts = batches_.counts();
  stats.total_batches = counts.batches;
  stats.total_requests = counts.batched;
  if (counts.batches > 0) {
    stats.avg_batch_size = counts.batch_sizes / static_cast<double>(counts.batches);
  }
  if (counts.batches_ended > 0) {
    stats.avg_batch_duration_ms =
        1000.0 * counts.batch_seconds / static_cast<double>(counts.batches_ended);
  }
  for (const Entry* entry : queue()) {
    ++(entry->state == core::SequenceState::kPreempted ? stats.preempted : stats.waiting);
  }
  stats.queue_depth = waiting();
  stats.running = running();
  return stats;
}

DispatchCounts Dispatcher::counts() const {
  DispatchCounts all = counts_;
  static_cast<BatchCounts&>(all) = batches_.counts();
  all.retries_delayed = starts_.retries_delayed();
  return all;
}

std::vector<ReplicaView> Dispatcher::AllReplicas(base::TimePoint now) const {
  std::vector<ReplicaView> views;
  views.reserve(replicas_.size());
  for (size_t i = 0; i < replicas_.size(); ++i) views.push_back(ViewOf(static_cast<int>(i), now));
  return views;
}

Status Dispatcher::CheckIntegrity() const {
  if (Status status = entries_.CheckIntegrity(); !status.ok()) return status;
  const auto broken = [](std::string what) {
    return Status(StatusCode::kInternal, "the dispatcher counts " + std::move(what));
  };
  struct Held {
    int in_flight = 0;
    int64_t tokens = 0;
    int tenants = 0;
  };
  std::vector<Held> held(replicas_.size());
  std::map<uint64_t, int32_t> members;
  for (const Entry* entry : entries_.running()) {
    Held& its = held[static_cast<size_t>(entry->replica)];
    ++its.in_flight;
    its.tokens += entry->tokens_left;
    if (entry->batch != 0) ++members[entry->batch];
    if (entry->tokens_left < 0) return broken("tokens left wrongly");
  }
  for (const auto& [name, tenant] : tenants().all()) {
    for (size_t i = 0; i < held.size(); ++i) held[i].tenants += tenant.at[i] > 0 ? 1 : 0;
  }
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = replicas_[static_cast<int>(i)];
    const Held& its = held[i];
    if (replica.in_flight() == its.in_flight && replica.outstanding() == its.tokens &&
        replica.tenants() == its.tenants) {
      continue;
    }
    return broken(
        fmt::format("{} requests of {} tenants and {} tokens at {}, there are {}, {} and "
                    "{}",
                    replica.in_flight(), replica.tenants(), replica.outstanding(),
                    replica.options().name, its.in_flight, its.tenants, its.tokens));
  }
  return members == batches_.Members() ? Status() : broken("the members of batches wrongly");
}

}  // namespace ropeway::gateway
