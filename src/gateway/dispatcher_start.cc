// Which requests of the dispatcher are sent next, and where.
#include <algorithm>
#include <limits>

#include "gateway/dispatcher.h"

namespace ropeway::gateway {
namespace {

// A request is passed by others for a cache that saves at least so many tokens.
constexpr int32_t kWorthWaiting = 128;
// Requests that are passed in one round: the search for one that can go has an end.
constexpr int kMaxPassed = 64;
}  // namespace

// --- Who starts.

void Dispatcher::StartAll(std::vector<Decision>* decisions) {
  load_.Measure();
  next_start_ = base::TimePoint::max();
  order_.set_limit(replicas_.limit(now_));
  if (queue().empty()) return;
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
    StartSome(Pass::kApart, JoinsLeft(), decisions);
    // Several may be full at once.
    for (int members = MembersThatMayStart(); members > 0; members = MembersThatMayStart()) {
      if (StartSome(Pass::kMembers, members, decisions) == 0) break;
    }
    next_start_ = std::min(next_start_, batches_.next_look());
  }
  if (room_beyond()) {
    const int most = continuous() ? std::numeric_limits<int>::max() : JoinsLeft();
    StartSome(Pass::kBeyond, most, decisions);
  }
  // While others run, shares and ages move on.
  if (!queue().empty() && running() > 0) {
    next_start_ = std::min(next_start_, order_.step_began() + kDispatchStep);
  }
}

bool Dispatcher::IsOf(Pass pass, const Entry& entry) const {
  if (pass == Pass::kAll) return true;
  if (pass == Pass::kBeyond) return places_.MayGoBeyond(entry);
  const bool joins = entry.is_urgent() && JoinsLeft() > 0;
  return (entry.was_sent() || joins) == (pass == Pass::kApart);
}

void Dispatcher::RankQueue(Pass pass) {
  const bool beyond = pass == Pass::kBeyond;
  line_.Clear();
  some_yield_ = false;
  // What went beyond would be in the way of those that wait for a place.
  none_may_yield_ = beyond && tenants().divides() && AnyBelowItsShare();
  const DispatchPlaces::Free free = places_.FreeAt(now_, beyond);
  for (Entry* entry : queue()) {
    if (entry->not_before > now_) {
      next_start_ = std::min(next_start_, entry->not_before);
      continue;
    }
    if (!IsOf(pass, *entry) || places_.For(*entry, free, beyond) == 0) continue;
    const DispatchOrder::Ranked ranked = order_.RankedOf(entry);
    if (ranked.yields && none_may_yield_) continue;
    some_yield_ = some_yield_ || ranked.yields;
    line_.Add(ranked);
  }
  line_.Sort();
}

// Urgent requests that may still start beside the batches: so many that half the places are left.
int Dispatcher::JoinsLeft() const {
  if (continuous() || !options_.enable_batching) return 0;
  return std::max(0, (replicas_.limit(now_) + 1) / 2 - batches_.joined());
}

bool Dispatcher::AnyBelowItsShare() const {
  const ReplicaMask usable = replicas_.Usable(now_);
  return std::any_of(queue().begin(), queue().end(), [&](const Entry* entry) {
    return !order_.Yields(*entry) && entry->not_before <= now_ &&
           (places_.Allowed(*entry) & usable) != 0;
  });
}

int Dispatcher::MembersThatMayStart() {
  scheduler::BatchFormer::QueueView view;
  view.oldest = base::TimePoint::max();
  int64_t prompt_tokens = 0;
  for (const Entry* entry : queue()) {
    if (!IsOf(Pass::kMembers, *entry)) continue;
    ++view.waiting;
    view.oldest = std::min(view.oldest, entry->arrived);
    view.urgent = view.urgent || entry->is_urgent();
    prompt_tokens += entry->prompt_len;
  }
  view.prompt_tokens =
      static_cast<int32_t>(std::min<int64_t>(prompt_tokens, std::numeric_limits<int32_t>::max()));
  view.free_slots = replicas_.free_places(now_);
  view.flush = flush_;
  return batches_.MayStart(view, now_);
}

int Dispatcher::StartSome(Pass pass, int most, std::vector<Decision>* decisions) {
  const size_t first = decisions->size();
  const bool joins = pass == Pass::kApart || (pass == Pass::kBeyond && !continuous());
  batches_.Reserve();
  int started = 0;
  try {
    started = StartRanked(pass, most, decisions);
  } catch (...) {
    NumberBatch(first, joins, decisions);  // Those that were sent are sent.
    throw;
  }
  NumberBatch(first, joins, decisions);
  return started;
}

int Dispatcher::StartRanked(Pass pass, int most, std::vector<Decision>* decisions) {
  const bool beyond = pass == Pass::kBeyond;
  RankQueue(pass);
  int started = 0;
  int passed = 0;
  DispatchPlaces::Free free = places_.FreeAt(now_, beyond);
  while (!line_.empty() && free.newcomers != 0 && passed < kMaxPassed) {
    line_.Resort(*order_.policy());  // Who has started is charged for it.
    DispatchOrder::Ranked first = line_.front();
    Entry* const entry = first.entry;
    line_.Pop();
    if (!first.yields &&
        order_.Yields(*entry)) {  // With what has started its tenant has its share.
      first.yields = some_yield_ = true;
      if (!none_may_yield_) line_.Push(first);
      continue;
    }
    // What was begun before needs no place among those that begin.
    const bool again = entry->was_sent();
    if (!again && started >= most) continue;
    // What has started may have left none for it.
    const ReplicaMask its = IsOf(pass, *entry) ? places_.For(*entry, free, beyond) : 0;
    if (its == 0) continue;
    if (!TryStart(entry, its, decisions)) {
      ++passed;
      continue;
    }
    free = places_.FreeAt(now_, beyond);
    if (!again || !options_.enable_batching) ++started;
    if (!options_.enable_batching && started >= most) break;
  }
  return started;
}

bool Dispatcher::WaitsForItsCache(Entry* entry, const Route& route) {
  const bool again = entry->was_sent();
  const bool has_rivals =
      some_yield_ && !order_.Yields(*entry);  // They would take the place for long.
  const bool hurries = again || entry->is_urgent() || entry->sched.aged || has_rivals;
  if (!continuous() || hurries || route.gain * kTokensPerPrefixBlock < kWorthWaiting) return false;
  if (entry->passed == base::TimePoint::max()) entry->passed = now_;
  const base::TimePoint end = entry->passed + options_.affinity_wait;
  if (now_ >= end) return false;
  next_start_ = std::min(next_start_, end);
  return true;
}

bool Dispatcher::TryStart(Entry* entry, ReplicaMask free, std::vector<Decision>* decisions) {
  RouteAsk ask;
  ask.blocks = entry->blocks;
  ask.tokens = entry->num_ids() + int64_t{load_.OutputsOf(*entry)};
  ask.allowed = places_.Allowed(*entry);
  ask.avoided = entry->failed_on;
  ask.free = free;
  const Route route = replicas_.Choose(ask, now_);
  if (route.replica < 0 || WaitsForItsCache(entry, route)) return false;
  if (entry->pays) {
    if (!budget_.Take(now_)) {
      if (entry->not_before == base::TimePoint{}) ++counts_.retries_delayed;
      entry->not_before = budget_.NextToken(now_);
      next_start_ = std::min(next_start_, entry->not_before);
      return false;
    }
    entry->pays = false;
  }
  Send(entry, route, decisions);
  return true;
}

void Dispatcher::Send(Entry* entry, const Route& route, std::vector<Decision>* decisions) {
  using Event = core::SequenceEvent;
  const bool first = entry->state == core::SequenceState::kWaiting;
  MakeRoom(decisions);
  LeaveQueue(entry);
  mover_.Move(entry->id(), &entry->state, first ? Event::kStart : Event::kResume);
  Replica& replica = replicas_[route.replica];
  const bool newcomer = (entry->tenant->there & MaskOf(route.replica)) == 0;
  entries_.Send(entry, route.replica);
  entry->sent = entry->last_output = entry->sched.queued_since = now_;
  entry->first_byte = false;
  entry->cached = std::min(route.cached * kTokensPerPrefixBlock, entry->num_ids() - 1);
  entry->computed = entry->cached;
  const int32_t outputs = std::max(1, load_.OutputsOf(*entry) - entry->generated());
  entry->tokens_left = entry->num_ids() - entry->cached + outputs;
  // From its first output on it goes on only where the bits are the same.
  if (!entry->given) {
    entry->ids_known = true;
    entry->identity = replica.options().can_resume ? replica.identity() : nullptr;
  }
  replica.OnSent(entry->tokens_left, newcomer, now_);
  replicas_.NoteSent(entry->blocks, route.replica);

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
