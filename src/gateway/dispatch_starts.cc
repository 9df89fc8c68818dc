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
    const bool serial = !from_.options.enable_batching;
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
  if (!from_.options.batches || !from_.options.enable_batching) return 0;
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
