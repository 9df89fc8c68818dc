#include "http/connection_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "http/http_options.h"

namespace ropeway::http {

int64_t MostOpen(const HttpLimits& limits) {
  constexpr int64_t kClosing = 128;
  const auto places = static_cast<int64_t>(std::max(1, limits.max_connections));
  return places + static_cast<int64_t>(ConnectionTable::kProbePlaces) + kClosing;
}

namespace {

// One new connection evicts at most so many strangers. Without a limit a client could evict all.
constexpr int64_t kMostEvictions = 8;

}  // namespace

ConnectionTable::Place::Place(ConnectionTable* table, std::string stranger, CloseFn close)
    : table_(table),
      stranger_(std::move(stranger)),
      close_(std::move(close)),
      account_(table->accounts_.end()),
      account_node_(1, this),
      stranger_node_(1, this),
      in_account_(account_node_.begin()),
      in_strangers_(stranger_node_.begin()) {}

ConnectionTable::Place::~Place() {
  const std::lock_guard lock(table_->mutex_);
  if (evicted_) return;
  table_->RemoveIdle(this);
  table_->Exit(this);
}

bool ConnectionTable::Place::Protect(const std::string& account) {
  const std::lock_guard lock(table_->mutex_);
  if (evicted_ || probe_only_) return !evicted_;
  if (account_ == table_->accounts_.end()) return false;
  table_->RemoveIdle(this);
  protected_ = true;
  if (account.empty() || account == account_->first) return true;
  table_->Exit(this);
  if (table_->Enter(this, account)) return true;
  table_->EnterProbes(this);
  return false;
}

void ConnectionTable::Place::Unprotect(bool forget) {
  const std::lock_guard lock(table_->mutex_);
  if (evicted_ || !std::exchange(protected_, false)) return;
  if (account_ == table_->accounts_.end()) return;  // Protect threw: it ends.
  if (forget && account_->first != stranger_) {
    table_->Exit(this);
    if (!table_->Enter(this, stranger_)) return table_->EnterProbes(this);
  }
  table_->AddIdle(this);
}

// One more than the limit, so that as many accounts as there are places get one each.
ConnectionTable::ConnectionTable(int max_connections)
    : places_(static_cast<int64_t>(std::max(1, max_connections)) + 1) {}

ConnectionTable::~ConnectionTable() = default;

std::unique_ptr<ConnectionTable::Place> ConnectionTable::Open(std::string account, CloseFn close) {
  std::unique_ptr<Place> place;  // Its destructor takes the lock.
  const std::lock_guard lock(mutex_);
  // A connection with an account of its own has only the limit of all connections.
  if (account.empty()) account = fmt::format("conn:{}", ++opened_);
  place.reset(new Place(this, std::move(account), std::move(close)));
  if (Enter(place.get(), place->stranger_)) {
    AddIdle(place.get());
    return place;
  }
  EnterProbes(place.get());
  return place;
}

bool ConnectionTable::Enter(Place* place, const std::string& name) {
  // Before the hold: without memory nothing is taken.
  const auto account = accounts_.try_emplace(name).first;
  ++account->second.places;
  place->account_ = account;
  // A connection with a key or a request comes before idle strangers: these do not reduce its part.
  const size_t spare = name == place->stranger_ ? 0 : strangers_.size();
  if (places_.Take(name, 1, &place->hold_, static_cast<int64_t>(spare))) return true;
  if (EvictStrangersFor(name) && places_.Take(name, 1, &place->hold_)) return true;
  if (account->second.idle.empty()) {
    Exit(place);
    return false;
  }
  // One of its own for it, so that it has no more than before.
  Place* const oldest = account->second.idle.front();
  place->hold_ = std::move(oldest->hold_);
  Evict(oldest);
  return true;
}

// REQUIRES: it has no place, and is in no list.
void ConnectionTable::EnterProbes(Place* place) {
  place->probe_only_ = true;
  place->protected_ = false;
  while (probes_.size() >= kProbePlaces) Evict(probes_.front());
  probes_.splice(probes_.end(), place->stranger_node_);
}

// Strangers can come again; but not for an account that has many already.
bool ConnectionTable::EvictStrangersFor(const std::string& name) {
  const int64_t held = places_.held(name);
  const int64_t missing = held + 2 + places_.used() - places_.total();
  if (held > kMostEvictions || missing > kMostEvictions ||
      missing > static_cast<int64_t>(strangers_.size())) {
    return false;
  }
  const bool are_others = std::all_of(
      strangers_.begin(), std::next(strangers_.begin(), static_cast<std::ptrdiff_t>(missing)),
      [&](const Place* each) { return each->account_->first != name; });
  if (!are_others) return false;
  for (int64_t i = 0; i < missing; ++i) Evict(strangers_.front());
  return true;
}

void ConnectionTable::Exit(Place* place) {
  place->hold_.Release();
  if (place->account_ == accounts_.end()) return;
  const auto account = std::exchange(place->account_, accounts_.end());
  if (--account->second.places == 0) accounts_.erase(account);
}

void ConnectionTable::AddIdle(Place* place) {
  List& idle = place->account_->second.idle;
  idle.splice(idle.end(), place->account_node_);
  if (place->account_->first != place->stranger_) return;
  strangers_.splice(strangers_.end(), place->stranger_node_);
}

void ConnectionTable::RemoveIdle(Place* place) {
  if (place->account_node_.empty()) {
    place->account_node_.splice(place->account_node_.end(), place->account_->second.idle,
                                place->in_account_);
  }
  if (place->stranger_node_.empty()) {
    List& from = place->probe_only_ ? probes_ : strangers_;
    place->stranger_node_.splice(place->stranger_node_.end(), from, place->in_strangers_);
  }
}

void ConnectionTable::Evict(Place* place) {
  RemoveIdle(place);
  Exit(place);
  place->evicted_ = true;
  ++evicted_;
  place->close_();
}

bool ConnectionTable::EvictOldest() {
  const std::lock_guard lock(mutex_);
  List& from = strangers_.empty() ? probes_ : strangers_;
  if (from.empty()) return false;
  Evict(from.front());
  return true;
}

int64_t ConnectionTable::evicted() const {
  const std::lock_guard lock(mutex_);
  return evicted_;
}

size_t ConnectionTable::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(places_.used());
}

}  // namespace ropeway::http
