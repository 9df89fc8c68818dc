// Which requests of the dispatcher are sent next, and where.
#include <algorithm>
#include <limits>

#include "gateway/dispatcher.h"

namespace ropeway::gateway {

// --- Who starts.

base::TimePoint Dispatcher::StartAll(std::vector<Decision>* decisions) {
  load_.Measure();
  starts_.Look(now_);
  order_.set_limit(replicas_.limit(now_));
  base::TimePoint next_start = base::TimePoint::max();
  if (queue().empty()) return next_start;
  const bool is_free = places_.AnyFree(now_);
  const auto room_beyond = [this] { return options_.enable_batching && places_.AnyBeyond(now_); };
  // One that waits alone needs no order, and no step that is shorter than the others.
  const bool unordered = (is_free || room_beyond()) && order_.has_fresh() && queue().size() > 1;
  if (now_ - order_.step_began() >= kDispatchStep || unordered) order_.BeginStep(now_);
  if (is_free && continuous()) {
    StartSome(Pass::kAll, std::numeric_limits<int>::max(), decisions);
  } else if (is_free && !options_.enable_batching) {
    if (running() == 0) StartSome(Pass::kAll, 1, decisions);
  } else if (is_free) {
    StartSome(Pass::kApart, starts_.JoinsLeft(), decisions);
    // Several may be full at once.
    int members = 0;
    do {
      members = starts_.MembersThatMayStart(flush_);
    } while (members > 0 && StartSome(Pass::kMembers, members, decisions) > 0);
    next_start = batches_.next_look();
  }
  if (room_beyond()) {
    const int most = continuous() ? std::numeric_limits<int>::max() : starts_.JoinsLeft();
    StartSome(Pass::kBeyond, most, decisions);
  }
  // While others run, shares and ages move on.
  if (!queue().empty() && running() > 0) {
    next_start = std::min(next_start, order_.step_began() + kDispatchStep);
  }
  return std::min(next_start, starts_.next_look());
}

int Dispatcher::StartSome(Pass pass, int most, std::vector<Decision>* decisions) {
  const size_t first = decisions->size();
  const bool joins = pass == Pass::kApart || (pass == Pass::kBeyond && !continuous());
  batches_.Reserve();
  try {
    starts_.Begin(pass, most);
    for (auto start = starts_.Next(); start.entry != nullptr; start = starts_.Next()) {
      Send(start.entry, start.route, decisions);
    }
  } catch (...) {
    NumberBatch(first, joins, decisions);  // Those that were sent are sent.
    throw;
  }
  NumberBatch(first, joins, decisions);
  return starts_.started();
}

void Dispatcher::Send(Entry* entry, const Route& route, std::vector<Decision>* decisions) {
  using Event = core::SequenceEvent;
  const bool first = entry->state == core::SequenceState::kWaiting;
  MakeRoom(decisions);
  LeaveQueue(entry);
  mover_.Move(entry->id(), &entry->state, first ? Event::kStart : Event::kResume);
  attempts_.Begin(entry, route);
  ++counts_.sent;
  if (first) {
    load_.LeaveQueue(entry->id());
    entry->place.Release();
    budget_.OnRequest(now_);
  } else {
    ++(entry->resumes ? counts_.resumptions : counts_.retries);
  }
  Decision decision;
  decision.kind = Decision::Kind::kSend;
  decision.id = entry->id();
  decision.replica = route.replica;
  decision.attempt = entry->attempt;
  decision.resume = entry->resumes && !entry->replays;
  decision.batch = entry->sched.batch;
  decisions->push_back(std::move(decision));
  SetTimer(entry);
  // Last, since it may take memory: it is sent, whether or not it is charged before it has output.
  if (first) order_.ChargeStart(entry);
}

void Dispatcher::NumberBatch(size_t first, bool joins, std::vector<Decision>* decisions) {
  DispatchBatches::Starting starting{.joins = joins};
  for (size_t i = first; i < decisions->size(); ++i) {
    const Entry& entry = *entries_.Find((*decisions)[i].id);
    if (entry.sched.batch.number != 0) continue;
    ++starting.members;
    starting.prompt_tokens += entry.prompt_len;
  }
  if (starting.members == 0) return;
  starting.size = continuous() ? running() : starting.members;
  const base::TimePoint filling = batches_.filling_since(joins);
  const uint64_t number = batches_.Start(starting, now_);
  for (size_t i = first; i < decisions->size(); ++i) {
    Decision& decision = (*decisions)[i];
    Entry* const entry = entries_.Find(decision.id);
    if (entry->sched.batch.number != 0) continue;
    entry->batch = number;
    const base::TimePoint since = std::max(filling, entry->arrived);
    entry->sched.batch = {.number = number,
                          .size = starting.size,
                          .formation = std::max(base::Duration(0), now_ - since)};
    decision.batch = entry->sched.batch;
  }
}

}  // namespace ropeway::gateway
