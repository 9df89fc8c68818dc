#include "gateway/dispatch_order.h"

#include <algorithm>
#include <limits>

namespace ropeway::gateway {
namespace {

// Requests of the queue whose caches are looked up anew in a step.
constexpr size_t kHintsPerStep = 8;

}  // namespace

void DispatchOrder::OnWaits(DispatchEntry* entry, base::TimePoint now) {
  UpdateHint(entry);
  entry->queued_at = entry->sched.queued_since = now;
  entry->passed = base::TimePoint::max();
  entry->fresh = has_fresh_ = true;
}

void DispatchOrder::UpdateHint(DispatchEntry* entry) const {
  const int32_t cached = replicas_.CachedBlocks(entry->blocks) * kTokensPerPrefixBlock;
  entry->sched.cached_hint = std::min(cached, entry->num_ids() - 1);
}

void DispatchOrder::RefreshHints() {
  const DispatchEntries::List& queue = entries_.waiting();
  for (size_t i = 0; i < std::min(kHintsPerStep, queue.size()); ++i) {
    next_hint_ = (next_hint_ + 1) % queue.size();
    UpdateHint(queue[next_hint_]);
  }
}

void DispatchOrder::NoteAboveShare() {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const DispatchEntry* entry : entries_.waiting()) {
    // The policy has not seen the fresh ones: their tenant's service may still be lifted.
    if (!entry->fresh) least = std::min(least, policy_->ServiceOf(*entry));
  }
  const bool any = policy_->is_fair() && least != std::numeric_limits<int64_t>::max();
  for (DispatchEntry* entry : entries_.waiting()) {
    entry->sched.above_share = any && policy_->ServiceOf(*entry) - least >= policy::kServiceQuantum;
  }
}

void DispatchOrder::BeginStep(base::TimePoint now) {
  step_began_ = now;
  RefreshHints();
  NoteAboveShare();
  aging_.Update(now, limit_, entries_.running(), entries_.waiting());
  policy_->BeginStep(entries_.waiting(), entries_.running(), now);
  for (DispatchEntry* entry : entries_.waiting()) entry->fresh = false;
  has_fresh_ = false;
}

DispatchOrder::Ranked DispatchOrder::RankedOf(DispatchEntry* entry) const {
  return {{.rank = policy_->RankOf(*entry),
           .order = entry->order,
           .yields = Yields(*entry),
           .aged = entry->sched.aged},
          entry};
}

void DispatchOrder::Charge(DispatchEntry* entry, int32_t prompt, int32_t output) {
  const int32_t paid = std::min(entry->prepaid, output);
  entry->prepaid -= paid;
  output -= paid;
  if (prompt + output <= 0) return;
  policy::ScheduledWork work;
  work.prompt_tokens = prompt;
  work.output_tokens = output;
  work.cost = prompt + output;
  policy_->OnScheduled(*entry, work);
}

void DispatchOrder::ChargeStart(DispatchEntry* entry) {
  if (entry->request.max_tokens == 0) return;
  policy::ScheduledWork paid;
  paid.output_tokens = 1;
  paid.cost = 1.0;
  policy_->OnScheduled(*entry, paid);
  entry->prepaid = 1;
}

int32_t DispatchOrder::PositionOf(RequestId id) const {
  DispatchEntry* const entry = entries_.Find(id);
  if (entry == nullptr || entry->replica >= 0) return -1;
  const Ranked its = RankedOf(entry);
  const DispatchEntries::List& queue = entries_.waiting();
  return static_cast<int32_t>(std::count_if(queue.begin(), queue.end(), [&](DispatchEntry* other) {
    return other != entry && scheduler::Before(RankedOf(other), its);
  }));
}

std::vector<service::RequestInfo> DispatchOrder::Requests(base::TimePoint now) const {
  std::vector<Ranked> order;
  order.reserve(entries_.waiting().size());
  for (DispatchEntry* entry : entries_.waiting()) order.push_back(RankedOf(entry));
  std::sort(order.begin(), order.end(), scheduler::Before);
  std::vector<service::RequestInfo> infos;
  infos.reserve(entries_.size());
  const auto add = [&](const DispatchEntry* entry, int32_t position) {
    using State = service::RequestInfo::State;
    service::RequestInfo info;
    info.id = entry->id();
    info.tenant = entry->request.tenant;
    info.state = State::kWaiting;
    if (entry->was_sent()) info.state = State::kPreempted;
    if (entry->running()) info.state = State::kRunning;
    info.age_seconds = base::ToSeconds(now - entry->arrived);
    info.priority = entry->request.priority;
    info.queue_position = position;
    info.replica = entry->replica;
    infos.push_back(std::move(info));
  };
  for (size_t i = 0; i < order.size(); ++i) add(order[i].entry, static_cast<int32_t>(i));
  for (const DispatchEntry* entry : entries_.running()) add(entry, -1);
  std::sort(
      infos.begin(), infos.end(),
      [](const service::RequestInfo& a, const service::RequestInfo& b) { return a.id < b.id; });
  return infos;
}

}  // namespace ropeway::gateway
