// What the dispatcher tells about itself.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "gateway/dispatcher.h"

namespace ropeway::gateway {

bool Dispatcher::StartsAtOnce(const core::Job& job) const {
  if (!queue_.empty()) return false;
  const auto tenant = tenants_.all().find(job.request.tenant);
  const ReplicaMask there = tenant != tenants_.all().end() ? tenant->second.there : 0;
  if (FreeIn(Pass::kAll).For(there) == 0) return false;
  if (!options_.enable_batching) return running_.empty();
  return !options_.batches || batches_.may_run_more();
}

void Dispatcher::View(scheduler::LoadView* view) const {
  load_.View({.jobs = running_,
              .slots = options_.enable_batching ? replicas_.limit(now_) : 1,
              .step_seconds = base::ToSeconds(kStep),
              .newcomers = NewcomerPlaces()},
             view);
}

scheduler::NewcomerPlaces Dispatcher::NewcomerPlaces() const {
  scheduler::NewcomerPlaces places;
  if (!tenants_.divides()) return places;
  places.slots = replicas_.kept_places(now_);
  if (tenants_.expects_newcomers() && replicas_.KeepingTogether(now_) != 0) ++places.slots;
  places.free = replicas_.newcomer_places(now_);
  places.kept = places.slots > 0 || replicas_.Sharing() != 0;
  return places;
}

int32_t Dispatcher::PositionOf(RequestId id) const {
  const Entry* const entry = Find(id);
  if (entry == nullptr || entry->replica >= 0) return -1;
  const Ranked its = RankedOf(Find(id));
  return static_cast<int32_t>(std::count_if(queue_.begin(), queue_.end(), [&](Entry* other) {
    return other != entry && scheduler::Before(RankedOf(other), its);
  }));
}

std::vector<engine::RequestInfo> Dispatcher::Requests(base::TimePoint now) const {
  std::vector<Ranked> order;
  order.reserve(queue_.size());
  for (Entry* entry : queue_) order.push_back(RankedOf(entry));
  std::sort(order.begin(), order.end(), scheduler::Before);
  std::vector<engine::RequestInfo> infos;
  infos.reserve(entries_.size());
  const auto add = [&](const Entry* entry, int32_t position) {
    using State = engine::RequestInfo::State;
    engine::RequestInfo info;
    info.id = entry->id();
    info.tenant = entry->request.tenant;
    info.state = State::kWaiting;
    if (entry->state == core::SequenceState::kPreempted) info.state = State::kPreempted;
    if (entry->running()) info.state = State::kRunning;
    info.age_seconds = base::ToSeconds(now - entry->arrived);
    info.priority = entry->request.priority;
    info.queue_position = position;
    infos.push_back(std::move(info));
  };
  for (size_t i = 0; i < order.size(); ++i) add(order[i].entry, static_cast<int32_t>(i));
  for (const Entry* entry : running_) add(entry, -1);
  std::sort(infos.begin(), infos.end(),
            [](const engine::RequestInfo& a, const engine::RequestInfo& b) { return a.id < b.id; });
  return infos;
}

engine::QueueInfo Dispatcher::Queue(const std::string* tenant, double weight) const {
  engine::QueueInfo info;
  for (const auto* list : {&queue_, &running_}) {
    for (const Entry* entry : *list) {
      if (tenant != nullptr && entry->request.tenant != *tenant) continue;
      engine::QueueInfo::Class& its = info.classes[static_cast<size_t>(entry->request.priority)];
      ++(entry->running() ? its.running : its.waiting);
    }
  }
  scheduler::LoadView load;
  admission_.View(&load);
  for (int i = 0; i < kNumPriorities; ++i) {
    const auto priority = static_cast<Priority>(i);
    info.classes[static_cast<size_t>(i)].wait_seconds =
        tenant == nullptr
            ? load.LongestWait(priority)
            : scheduler::PredictedWait(load, {*tenant, weight, priority}, options_.max_wait);
  }
  if (!queue_.empty()) {
    info.blocked_by = "batch";
    if (!HasPlaces()) info.blocked_by = "slots";
    if (!any_alive()) info.blocked_by = "backends";
  }
  return info;
}

int Dispatcher::RetryAfterSeconds(const std::string& tenant) const {
  scheduler::LoadView load;
  admission_.View(&load);
  return scheduler::WholeSeconds(load.SecondsToEnd(tenant));
}

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
  for (const Entry* entry : queue_) {
    ++(entry->state == core::SequenceState::kPreempted ? stats.preempted : stats.waiting);
  }
  stats.queue_depth = waiting();
  stats.running = running();
  return stats;
}

DispatchCounts Dispatcher::counts() const {
  DispatchCounts all = counts_;
  static_cast<BatchCounts&>(all) = batches_.counts();
  return all;
}

std::vector<ReplicaView> Dispatcher::AllReplicas(base::TimePoint now) const {
  std::vector<ReplicaView> views;
  views.reserve(replicas_.size());
  for (size_t i = 0; i < replicas_.size(); ++i) views.push_back(ViewOf(static_cast<int>(i), now));
  return views;
}

Status Dispatcher::CheckTenants() const {
  DispatchTenants again(options_.rules.tenants, replicas_.size());
  for (const auto& [id, entry] : entries_) {
    Tenant* const tenant = again.Enter(entry->request.tenant, 1.0);
    if (entry->replica >= 0) {
      again.CountAttempt(tenant, entry->replica, 1);
    } else if (entry->request.priority == Priority::kHigh) {
      again.CountUrgent(tenant, 1);
    }
  }
  bool same = tenants_.CountsAs(again);
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const auto there = std::count_if(
        again.all().begin(), again.all().end(),
        [i](const auto& named) { return (named.second.there & MaskOf(static_cast<int>(i))) != 0; });
    same = same && replicas_[static_cast<int>(i)].tenants() == there;
  }
  if (same) return {};
  return {StatusCode::kInternal, "the dispatcher counts its tenants' requests wrongly"};
}

Status Dispatcher::CheckIntegrity() const {
  const auto broken = [](std::string what) {
    return Status(StatusCode::kInternal, "the dispatcher " + std::move(what));
  };
  struct Held {
    int in_flight = 0;
    int64_t tokens = 0;
  };
  std::vector<Held> held(replicas_.size());
  std::map<uint64_t, int32_t> members;
  int64_t first_waits = 0;
  const auto look = [&](const std::vector<Entry*>& list, bool runs) -> Status {
    for (size_t i = 0; i < list.size(); ++i) {
      const Entry& entry = *list[i];
      const std::string name = fmt::format("has request {} ", entry.id());
      if (entry.index != i || Find(entry.id()) != &entry) return broken(name + "out of place");
      if (entry.running() != runs || (entry.replica >= 0) != runs) {
        return broken(name + "on the wrong list");
      }
      if (entry.place.taken() != (entry.state == core::SequenceState::kWaiting)) {
        return broken(name + "with a wrong place in the queue");
      }
      if (!timers_.contains({entry.timer, entry.id()})) return broken(name + "without its timer");
      if (entry.tokens_left < 0) return broken(name + "with less than no tokens left");
      first_waits += entry.state == core::SequenceState::kWaiting ? 1 : 0;
      if (entry.batch != 0) ++members[entry.batch];
      if (!runs) continue;
      Held& its = held[static_cast<size_t>(entry.replica)];
      ++its.in_flight;
      its.tokens += entry.tokens_left;
    }
    return {};
  };
  if (Status status = look(queue_, false); !status.ok()) return status;
  if (Status status = look(running_, true); !status.ok()) return status;
  if (entries_.size() != queue_.size() + running_.size() || timers_.size() != entries_.size()) {
    return broken("counts its requests wrongly");
  }
  if (places_.used() != first_waits) return broken("counts places in the queue wrongly");
  if (Status status = CheckTenants(); !status.ok()) return status;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = replicas_[static_cast<int>(i)];
    if (replica.in_flight() != held[i].in_flight || replica.outstanding() != held[i].tokens) {
      return broken(fmt::format("counts {} requests and {} tokens at {}, there are {} and {}",
                                replica.in_flight(), replica.outstanding(), replica.options().name,
                                held[i].in_flight, held[i].tokens));
    }
  }
  return members == batches_.Members() ? Status() : broken("counts the members of batches wrongly");
}

}  // namespace ropeway::gateway
