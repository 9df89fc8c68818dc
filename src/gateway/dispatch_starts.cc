#include "gateway/dispatch_starts.h"

#include <algorithm>
#include <limits>

namespace ropeway::gateway {
namespace {

// A request is passed by others for a cache that saves at least so many tokens.
constexpr int32_t kWorthWaiting = 128;
// Requests that are passed in one round: the search for one that can go has an end.
constexpr int kMaxPassed = 64;

}  // namespace

void DispatchStarts::Reserve(size_t count) {
  line_.Reserve(count);
  if (given_.capacity() < count) given_.reserve(2 * count);
}

base::TimePoint DispatchStarts::Run(base::TimePoint now, bool flush, const SendFn& send) {
  constexpr int kNoLimit = std::numeric_limits<int>::max();
  const DispatchOptions& options = from_.options;
  const size_t running = from_.entries.running().size();
  const DispatchEntries::List& queue = from_.entries.waiting();
  Look(now);
  from_.order.set_limit(from_.replicas.limit(now));
  if (queue.empty()) return base::TimePoint::max();
  const bool is_free = from_.places.AnyFree(now);
  const auto room_beyond = [&] {
    return options.batching.enable_batching && from_.places.AnyBeyond(now);
  };
  // One that waits alone needs no order, and no step that is shorter than the others.
  const bool unordered = (is_free || room_beyond()) && from_.order.has_fresh() && queue.size() > 1;
  if (now - from_.order.step_began() >= kDispatchStep || unordered) from_.order.BeginStep(now);
  if (is_free && options.continuous()) {
    RunPass(Pass::kAll, kNoLimit, send);
  } else if (is_free && !options.batching.enable_batching) {
    if (running == 0) RunPass(Pass::kAll, 1, send);
  } else if (is_free) {
    RunPass(Pass::kApart, JoinsLeft(), send);
    // Several may be full at once.
    int members = 0;
    do {
      members = MembersThatMayStart(flush);
    } while (members > 0 && RunPass(Pass::kMembers, members, send) > 0);
    NoteLook(from_.batches.next_look());
  }
  if (room_beyond()) RunPass(Pass::kBeyond, options.continuous() ? kNoLimit : JoinsLeft(), send);
  // While others run, shares and ages move on.
  if (!queue.empty() && !from_.entries.running().empty()) {
    NoteLook(from_.order.step_began() + kDispatchStep);
  }
  return next_look_;
}

int DispatchStarts::RunPass(Pass pass, int most, const SendFn& send) {
  from_.batches.Reserve();
  try {
    Begin(pass, most);
    for (Start start = Next(); start.entry != nullptr; start = Next()) {
      if (start.entry->sched.batch.number == 0) given_.push_back(start.entry);
      send(start.entry, start.route);
    }
  } catch (...) {
    NumberBatch();  // Those that were sent are sent.
    throw;
  }
  NumberBatch();
  return started_;
}

void DispatchStarts::NumberBatch() {
  const bool joins =
      pass_ == Pass::kApart || (pass_ == Pass::kBeyond && from_.options.in_batches());
  std::erase_if(given_, [](const DispatchEntry* entry) { return entry->replica < 0; });
  DispatchBatches::Starting starting{.joins = joins};
  for (const DispatchEntry* entry : given_) starting.prompt_tokens += entry->prompt_len;
  starting.members = static_cast<int32_t>(given_.size());
  if (starting.members == 0) return;
  starting.size = from_.options.continuous() ? static_cast<int32_t>(from_.entries.running().size())
                                             : starting.members;
  const base::TimePoint filling = from_.batches.filling_since(joins);
  const uint64_t number = from_.batches.Start(starting, now_);
  for (DispatchEntry* entry : given_) {
    const base::TimePoint since = std::max(filling, entry->arrived);
    entry->batch = number;
    entry->sched.batch = {.number = number,
                          .size = starting.size,
                          .formation = std::max(base::Duration(0), now_ - since)};
  }
  given_.clear();
}

void DispatchStarts::Look(base::TimePoint now) {
  now_ = now;
  next_look_ = base::TimePoint::max();
}

void DispatchStarts::Begin(Pass pass, int most) {
  pass_ = pass;
  most_ = most;
  started_ = passed_ = 0;
  last_ = nullptr;
  free_ = FreeNow();
  Rank();
}

DispatchStarts::Start DispatchStarts::Next() {
  if (last_ != nullptr) {
    last_ = nullptr;
    free_ = FreeNow();
    const bool serial = !from_.options.batching.enable_batching;
    if (!last_was_sent_ || serial) ++started_;
    if (serial && started_ >= most_) return {};
  }
  while (!line_.empty() && free_.newcomers != 0 && passed_ < kMaxPassed) {
    line_.Resort(*from_.order.policy());  // What has started is charged for it.
    DispatchOrder::Ranked first = line_.front();
    DispatchEntry* const entry = first.entry;
    line_.Pop();
    // With what has started its tenant has its share.
    if (!first.yields && from_.order.Yields(*entry)) {
      first.yields = some_yield_ = true;
      if (!none_may_yield_) line_.Push(first);
      continue;
    }
    // What was begun before needs no place among those that begin.
    if (!entry->was_sent() && started_ >= most_) continue;
    // What has started may have left none for it.
    const ReplicaMask its =
        IsOf(pass_, *entry) ? from_.places.For(*entry, free_, pass_ == Pass::kBeyond) : 0;
    if (its == 0) continue;
    const Route route = RouteOf(*entry, its);
    if (route.replica < 0 || WaitsForItsCache(entry, route) || !Pays(entry)) {
      ++passed_;
      continue;
    }
    last_ = entry;
    last_was_sent_ = entry->was_sent();
    return {entry, route};
  }
  return {};
}

void DispatchStarts::Rank() {
  const bool beyond = pass_ == Pass::kBeyond;
  line_.Clear();
  some_yield_ = false;
  // What went beyond would be in the way of those that wait for a place.
  none_may_yield_ = beyond && from_.entries.tenants().divides() && AnyBelowItsShare();
  for (DispatchEntry* entry : from_.entries.waiting()) {
    if (entry->not_before > now_) {
      NoteLook(entry->not_before);
      continue;
    }
    if (!IsOf(pass_, *entry) || from_.places.For(*entry, free_, beyond) == 0) continue;
    const DispatchOrder::Ranked ranked = from_.order.RankedOf(entry);
    if (ranked.yields && none_may_yield_) continue;
    some_yield_ = some_yield_ || ranked.yields;
    line_.Add(ranked);
  }
  line_.Sort();
}

bool DispatchStarts::IsOf(Pass pass, const DispatchEntry& entry) const {
  if (pass == Pass::kAll) return true;
  if (pass == Pass::kBeyond) return from_.places.MayGoBeyond(entry);
  const bool joins = entry.is_urgent() && JoinsLeft() > 0;
  return (entry.was_sent() || joins) == (pass == Pass::kApart);
}

int DispatchStarts::JoinsLeft() const {
  if (!from_.options.in_batches() || !from_.options.batching.enable_batching) return 0;
  return std::max(0, (from_.replicas.limit(now_) + 1) / 2 - from_.batches.joined());
}

bool DispatchStarts::AnyBelowItsShare() const {
  const ReplicaMask usable = from_.replicas.Usable(now_);
  const DispatchEntries::List& queue = from_.entries.waiting();
  return std::any_of(queue.begin(), queue.end(), [&](const DispatchEntry* entry) {
    return !from_.order.Yields(*entry) && entry->not_before <= now_ &&
           (from_.places.Allowed(*entry) & usable) != 0;
  });
}

int DispatchStarts::MembersThatMayStart(bool flush) {
  scheduler::BatchFormer::QueueView view;
  view.oldest = base::TimePoint::max();
  int64_t prompt_tokens = 0;
  for (const DispatchEntry* entry : from_.entries.waiting()) {
    if (!IsOf(Pass::kMembers, *entry)) continue;
    ++view.waiting;
    view.oldest = std::min(view.oldest, entry->arrived);
    view.urgent = view.urgent || entry->is_urgent();
    prompt_tokens += entry->prompt_len;
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  view.prompt_tokens = static_cast<int32_t>(std::min(prompt_tokens, kMost));
  view.free_slots = from_.replicas.free_places(now_);
  view.flush = flush;
  return from_.batches.MayStart(view, now_);
}

Route DispatchStarts::RouteOf(const DispatchEntry& entry, ReplicaMask free) const {
  RouteAsk ask;
  ask.blocks = entry.blocks;
  ask.tokens = entry.num_ids() + int64_t{from_.load.OutputsOf(entry)};
  ask.allowed = from_.places.Allowed(entry);
  ask.avoided = entry.failed_on;
  ask.free = free;
  return from_.replicas.Choose(ask, now_);
}

bool DispatchStarts::WaitsForItsCache(DispatchEntry* entry, const Route& route) {
  // They would take the place for long.
  const bool has_rivals = some_yield_ && !from_.order.Yields(*entry);
  const bool hurries = entry->was_sent() || entry->is_urgent() || entry->sched.aged || has_rivals;
  if (!from_.options.continuous() || hurries ||
      route.gain * kTokensPerPrefixBlock < kWorthWaiting) {
    return false;
  }
  if (entry->passed == base::TimePoint::max()) entry->passed = now_;
  const base::TimePoint end = entry->passed + from_.options.affinity_wait;
  if (now_ >= end) return false;
  NoteLook(end);
  return true;
}

bool DispatchStarts::Pays(DispatchEntry* entry) {
  if (!entry->pays) return true;
  if (!from_.budget.Take(now_)) {
    if (entry->not_before == base::TimePoint{}) ++retries_delayed_;
    entry->not_before = from_.budget.NextToken(now_);
    NoteLook(entry->not_before);
    return false;
  }
  entry->pays = false;
  return true;
}

}  // namespace ropeway::gateway
