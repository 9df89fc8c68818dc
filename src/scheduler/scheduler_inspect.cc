// The parts of Scheduler that only look: the order of the queue, the load and the integrity check.

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "core/sequence_state.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/scheduler.h"

namespace ropeway::scheduler {
namespace {

const char* WhatIsBrokenInQueue(const core::Sequence& s) {
  if (s.state != core::SequenceState::kWaiting && s.state != core::SequenceState::kPreempted) {
    return "is in the queue";
  }
  return s.kv.blocks.empty() && s.kv.computed == 0 ? nullptr : "holds blocks";
}

const char* WhatIsBrokenRunning(const core::Sequence& s, int32_t groups) {
  if (!s.running()) return "is on the running list";
  if (s.kv.computed >= s.num_ids()) return "has computed all its ids and not ended";
  return static_cast<int32_t>(s.kv.blocks.size()) >= groups * kvcache::BlocksFor(s.kv.computed)
             ? nullptr
             : "has more positions computed than its blocks hold";
}

}  // namespace

int32_t Scheduler::PositionOf(const core::Sequence& sequence) const {
  const Ranked its = RankedOf(const_cast<core::Sequence*>(&sequence));
  return static_cast<int32_t>(std::count_if(
      queue_.begin(), queue_.end(),
      [&](core::Sequence* other) { return other != &sequence && Before(RankedOf(other), its); }));
}

std::vector<uint64_t> Scheduler::QueueOrder() const {
  std::vector<Ranked> order;
  order.reserve(queue_.size());
  for (core::Sequence* sequence : queue_) order.push_back(RankedOf(sequence));
  std::sort(order.begin(), order.end(), Before);
  std::vector<uint64_t> ids;
  ids.reserve(order.size());
  for (const Ranked& ranked : order) ids.push_back(ranked.sequence->id());
  return ids;
}

void Scheduler::View(LoadView* view) const {
  // While blocks are what is short, there are no more slots than sequences that run.
  const bool blocks = output_.head_blocked_by == BlockedBy::kBlocks && num_running() > 0;
  load_.View({.sequences = running_,
              .slots = blocks ? std::min(limit_, num_running()) : limit_,
              .step_seconds = costs_.step_seconds()},
             view);
}

Status Scheduler::CheckIntegrity() const {
  std::unordered_set<const core::Sequence*> seen;
  const auto check = [&seen](std::span<core::Sequence* const> list,
                             const auto& what_is_broken) -> Status {
    for (const core::Sequence* s : list) {
      const char* const what = seen.insert(s).second ? what_is_broken(*s) : "is listed twice";
      if (what == nullptr) continue;
      return {StatusCode::kInternal,
              fmt::format("sequence {} ({}) {}", s->id(), SequenceStateName(s->state), what)};
    }
    return {};
  };
  const auto running = [this](const core::Sequence& s) {
    return WhatIsBrokenRunning(s, kv_->windows().groups());
  };
  if (Status s = check(running_, running); !s.ok()) return s;
  if (Status s = check(queue_, WhatIsBrokenInQueue); !s.ok()) return s;
  size_t of_tenants = 0;
  for (const TenantTable::Tenant& tenant : tenants_.all()) {
    of_tenants += static_cast<size_t>(tenant.sequences);
  }
  if (of_tenants != queue_.size() + running_.size()) {
    return {StatusCode::kInternal, fmt::format("the tenants have {} sequences, {} are listed",
                                               of_tenants, queue_.size() + running_.size())};
  }
  if (num_running() <= max_running_) return {};
  return {StatusCode::kInternal,
          fmt::format("{} sequences run, more than {}", num_running(), max_running_)};
}

}  // namespace ropeway::scheduler
