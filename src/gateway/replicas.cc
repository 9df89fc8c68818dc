#include "gateway/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <utility>

#include "scheduler/admission.h"

namespace ropeway::gateway {
namespace {

constexpr size_t kMaxLatencies = 256;
// A replica that says it is busy is left alone for so long, doubled each time, or as long as it
// says; and at most for the longest.
constexpr base::Duration kBusyPause = std::chrono::milliseconds(250);
constexpr int kMaxBusyDoublings = 4;
constexpr base::Duration kLongestBusyPause = std::chrono::seconds(10);
// After a failure a replica is probed at once, but not more often than this.
constexpr base::Duration kProbeGap = std::chrono::milliseconds(250);
// A replica that returns begins with this part of its places, and gets more so many times.
constexpr double kFirstPart = 0.1;
constexpr int kReturnSteps = 20;

// Null where one of the three is missing.
std::shared_ptr<const std::string> IdentityOf(const BackendFacts& facts) {
  if (facts.model_digest.empty() || facts.numerics.empty() || facts.limits.empty()) return nullptr;
  return std::make_shared<const std::string>(facts.model_digest + '\n' + facts.numerics + '\n' +
                                             facts.limits);
}

PlacesOptions PlacesOf(const BackendOptions& replica, PlacesOptions places) {
  if (replica.min_concurrency > 0) places.least = replica.min_concurrency;
  places.start = std::max(places.start, places.least);
  return places;
}

}  // namespace

const char* ReplicaStateName(ReplicaView::State state) {
  static constexpr const char* kNames[] = {"up",        "returning", "busy",
                                           "not_ready", "draining",  "ejected"};
  return kNames[static_cast<size_t>(state)];
}

// --- Replica.

Replica::Replica(BackendOptions options, const ReplicaRules& rules)
    : options_(std::move(options)),
      rules_(rules),
      learned_(PlacesOf(options_, rules.places), true) {
  if (options_.max_concurrency > 0) {
    learned_.set_most(options_.max_concurrency, true);
    learned_.set_by_latency(false);
  }
  if (rules_.memory_control) memory_.emplace(Bound());
  latencies_.reserve(kMaxLatencies);
}

int Replica::Bound() const {
  if (options_.max_concurrency > 0) return options_.max_concurrency;
  return std::clamp(facts_.places.value_or(rules_.places.most), 1, rules_.places.most);
}

double Replica::Ramp(base::TimePoint now) const {
  const base::Duration since = now - returned_at_;
  if (since >= rules_.health.return_time) return 1.0;
  return kFirstPart +
         (1.0 - kFirstPart) * base::ToSeconds(since) / base::ToSeconds(rules_.health.return_time);
}

int Replica::limit(base::TimePoint now) const {
  int limit = learned_.limit();
  if (memory_ && facts_.free_memory) limit = std::min(limit, memory_->limit());
  limit = std::max(1, limit - std::min(others_, others_before_));
  return std::max(1, static_cast<int>(limit * Ramp(now)));
}

int Replica::kept_places(base::TimePoint now) const {
  return !shares() && expects_newcomers() && limit(now) >= 2 ? 1 : 0;
}

int Replica::free_places(base::TimePoint now, const PlaceAsk& ask) const {
  if (!usable(now)) return 0;
  int places = limit(now);
  const int kept = ask.newcomer ? 0 : kept_places(now);
  if (ask.beyond && facts_.preempts && kept == 0) {
    const int beyond = (places + 1) / 2;
    const bool keeps_one = shares() && expects_newcomers() && beyond >= 2;
    places += keeps_one && !ask.newcomer ? beyond - 1 : beyond;
  }
  places -= kept;
  return std::max(0, places - in_flight_);
}

void Replica::OnSent(int64_t tokens, bool newcomer, base::TimePoint now) {
  // A place that is kept counts as in use, else its places would not grow.
  const int kept = kept_places(now);
  ++sent_;
  ++in_flight_;
  tenants_ += newcomer ? 1 : 0;
  peak_ = std::max(peak_, in_flight_);
  outstanding_ += tokens;
  learned_.OnSent(in_flight_ + kept);
}

void Replica::OnFirstByte(base::Duration took, int32_t prompt_tokens, base::TimePoint now) {
  learned_.OnFirstByte(took, prompt_tokens, now);
}

void Replica::OnLeft(int64_t tokens, bool last) {
  --in_flight_;
  tenants_ -= last ? 1 : 0;
  outstanding_ -= tokens;
}

void Replica::OnCompleted(base::Duration latency, base::TimePoint /*now*/) {
  ++completed_;
  strikes_ = 0;
  busy_in_a_row_ = 0;
  if (latencies_.size() < kMaxLatencies) {
    latencies_.push_back(latency);
  } else {
    latencies_[next_latency_] = latency;
  }
  next_latency_ = (next_latency_ + 1) % kMaxLatencies;
}

bool Replica::OnFailure(FailureKind kind, int retry_after_seconds, bool last, base::TimePoint now) {
  using Kind = FailureKind;
  if (kind == Kind::kRejected) {
    strikes_ = 0;  // It answers.
    return false;
  }
  ++failed_;
  if (kind == Kind::kBusy) {
    learned_.OnBusy(in_flight_, now);
    if (now < busy_until_) return false;  // The first of requests sent together counts.
    const int doublings = std::min(busy_in_a_row_++, kMaxBusyDoublings);
    base::Duration pause = kBusyPause * (1 << doublings);
    if (retry_after_seconds > 0) pause = std::chrono::seconds(std::min(retry_after_seconds, 3600));
    busy_until_ = now + std::min(pause, kLongestBusyPause);
    return false;
  }
  // It may be another one when it comes back: what it is must be asked again.
  identity_.reset();
  if (!probe_pending_) {
    next_probe_ = std::min(next_probe_, std::max(now, probe_sent_ + kProbeGap));
  }
  if (kind == Kind::kBroken) learned_.OnFailure(now);
  if (ejected_) return false;
  strikes_ += kind == Kind::kUnreachable ? 2 : 1;
  if (strikes_ < rules_.health.failures || (last && kind != Kind::kUnreachable)) return false;
  const bool gone = kind == Kind::kUnreachable;
  Eject(gone ? "it cannot be reached" : "its requests fail", !gone, now);
  return true;
}

void Replica::Eject(std::string reason, bool doubles, base::TimePoint now) {
  const HealthOptions& health = rules_.health;
  if (now - returned_at_ >= health.forgiven) ejections_in_a_row_ = 0;
  base::Duration time = health.ejection;
  if (doubles) {
    for (int i = 0; i < ejections_in_a_row_ && time < health.longest_ejection; ++i) time *= 2;
    ++ejections_in_a_row_;
  }
  ++ejections_;
  ejected_ = true;
  ejected_at_ = now;
  ejected_until_ = now + std::min(time, health.longest_ejection);
  reason_ = std::move(reason);
  strikes_ = probe_strikes_ = 0;
  busy_until_ = {};
  others_ = others_before_ = 0;
  identity_.reset();
  if (!probe_pending_) next_probe_ = std::min(next_probe_, now + health.probe_again);
}

void Replica::Return(base::TimePoint now) {
  ejected_ = false;
  reason_.clear();
  returned_at_ = now;
  strikes_ = 0;
}

bool Replica::TakeProbe(base::TimePoint now, uint64_t* probe, bool* ejected) {
  *ejected = false;
  if (probe_pending_) {
    if (now < probe_sent_ + rules_.health.probe_timeout) return false;
    *ejected = OnProbeFailed("it does not answer probes", now);
  }
  if (now < next_probe_) return false;
  probe_pending_ = true;
  probe_sent_ = now;
  peak_ = in_flight_;
  *probe = ++probe_;
  return true;
}

bool Replica::OnProbeFailed(const std::string& reason, base::TimePoint now) {
  probe_pending_ = false;
  next_probe_ = now + rules_.health.probe_again;
  identity_.reset();
  reason_ = reason;
  if (!ejected_ && ++probe_strikes_ < rules_.health.probe_failures) return false;
  const bool ejects = !ejected_;
  if (ejects) Eject(reason, false, now);
  unheard_ = true;
  return ejects;
}

bool Replica::OnProbe(uint64_t probe, const StatusOr<BackendFacts>& facts, bool alone,
                      base::TimePoint now) {
  if (!probe_pending_ || probe != probe_) return false;
  if (!facts.ok()) return OnProbeFailed(facts.status().message(), now);
  probe_pending_ = false;
  unheard_ = false;
  probe_strikes_ = 0;
  const int bound = facts_.places ? Bound() : 0;
  facts_ = *facts;
  ready_ = facts_.ready;
  reason_ = ready_ ? (ejected_ ? reason_ : "") : facts_.reason;
  identity_ = IdentityOf(facts_);
  if (options_.max_concurrency == 0) {
    learned_.set_by_latency(!facts_.places.has_value());
    // What it reports is believed at once where it is new, and not again after failures.
    if (facts_.places || bound > 0) {
      learned_.set_most(Bound(), facts_.places.has_value() && Bound() != bound);
    }
  }
  if (memory_ && facts_.free_memory) memory_->OnStep({}, *facts_.free_memory);
  others_before_ = others_;
  others_ = 0;
  if (facts_.places && facts_.running) {
    // In 64 bits: it may say anything.
    const int64_t all = int64_t{*facts_.running} + facts_.waiting.value_or(0);
    others_ = static_cast<int>(std::clamp<int64_t>(all - peak_, 0, Bound()));
  }
  const HealthOptions& health = rules_.health;
  const bool early = alone && now >= ejected_at_ + health.ejection;
  if (ejected_ && ready_ && (early || now >= ejected_until_)) Return(now);
  next_probe_ = now + (usable(now) ? health.probe_interval : health.probe_again);
  return false;
}

base::TimePoint Replica::next_look(base::TimePoint now) const {
  const HealthOptions& health = rules_.health;
  base::TimePoint look = probe_pending_ ? probe_sent_ + health.probe_timeout : next_probe_;
  if (busy_until_ > now) look = std::min(look, busy_until_);
  if (!ejected_ && now - returned_at_ < health.return_time) {
    look = std::min(look, now + health.return_time / kReturnSteps);
  }
  return look;
}

ReplicaView Replica::View(base::TimePoint now) const {
  using State = ReplicaView::State;
  ReplicaView view;
  view.name = options_.name;
  if (draining_) {
    view.state = State::kDraining;
    view.reason = "it is draining";
  } else if (ejected_) {
    view.state = State::kEjected;
    view.reason = reason_;
  } else if (!ready_) {
    view.state = State::kNotReady;
    view.reason = reason_.empty() ? "it says that it is not ready" : reason_;
  } else if (now < busy_until_) {
    view.state = State::kBusy;
    view.reason = "it says that it is busy";
  } else if (Ramp(now) < 1.0) {
    view.state = State::kReturning;
  }
  view.in_flight = in_flight_;
  view.places = limit(now);
  view.learned = options_.max_concurrency == 0 && !facts_.places.has_value();
  view.outstanding_tokens = outstanding_;
  view.sent = sent_;
  view.completed = completed_;
  view.failed = failed_;
  view.ejections = ejections_;
  view.facts = facts_;
  std::vector<base::Duration> sorted = latencies_;
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty()) {
    view.latency_p50 = sorted[(sorted.size() - 1) / 2];
    view.latency_p99 = sorted[(sorted.size() * 99 + 99) / 100 - 1];
  }
  return view;
}

// --- Replicas.

Replicas::Replicas(std::vector<BackendOptions> options, const ReplicaRules& rules)
    : rules_(rules),
      ring_([&options] {
        std::vector<HashRing::Node> nodes;
        for (const BackendOptions& one : options) nodes.push_back({one.name, one.weight});
        return HashRing(nodes);
      }()),
      table_(rules.table_entries) {
  replicas_.reserve(options.size());
  for (BackendOptions& one : options) replicas_.emplace_back(std::move(one), rules);
}

template <typename Holds>
ReplicaMask Replicas::Those(Holds holds) const {
  ReplicaMask mask = 0;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (holds(replicas_[i])) mask |= MaskOf(static_cast<int>(i));
  }
  return mask;
}

ReplicaMask Replicas::Alive() const {
  return Those([](const Replica& one) { return one.alive(); });
}

ReplicaMask Replicas::Usable(base::TimePoint now) const {
  return Those([&](const Replica& one) { return one.usable(now); });
}

ReplicaMask Replicas::Free(base::TimePoint now, const PlaceAsk& ask) const {
  return Those([&](const Replica& one) { return one.free_places(now, ask) > 0; });
}

ReplicaMask Replicas::Sharing() const {
  return Those([](const Replica& one) { return one.shares(); });
}

ReplicaMask Replicas::KeepingTogether(base::TimePoint now) const {
  const ReplicaMask singles = Those(
      [&](const Replica& one) { return one.usable(now) && !one.shares() && one.limit(now) == 1; });
  return std::popcount(singles) > 1 ? singles : 0;
}

ReplicaMask Replicas::CanResume(const std::string* identity) const {
  if (identity == nullptr) return 0;
  return Those([&](const Replica& one) {
    const auto& its = one.identity();
    return its != nullptr && *its == *identity;
  });
}

int Replicas::free_places(base::TimePoint now, const PlaceAsk& ask) const {
  int places = 0;
  for (const Replica& one : replicas_) places += one.free_places(now, ask);
  return places;
}

int Replicas::newcomer_places(base::TimePoint now) const {
  int places = 0;
  for (const Replica& one : replicas_) {
    places += one.free_places(now, {.newcomer = true, .beyond = one.shares()});
  }
  return places;
}

int Replicas::kept_places(base::TimePoint now) const {
  int places = 0;
  for (const Replica& one : replicas_) places += one.alive() ? one.kept_places(now) : 0;
  return places;
}

int Replicas::limit(base::TimePoint now) const {
  int limit = 0;
  for (const Replica& one : replicas_) limit += one.alive() ? one.limit(now) : 0;
  return std::max(1, limit);
}

base::TimePoint Replicas::next_look(base::TimePoint now) const {
  base::TimePoint look = base::TimePoint::max();
  for (const Replica& one : replicas_) look = std::min(look, one.next_look(now));
  return look;
}

double Replicas::MeanLoad(ReplicaMask replicas) const {
  double tokens = 0.0;
  double weights = 0.0;
  for (; replicas != 0; replicas &= replicas - 1) {
    const Replica& one = (*this)[std::countr_zero(replicas)];
    tokens += static_cast<double>(one.outstanding());
    weights += one.options().weight;
  }
  return weights > 0.0 ? tokens / weights : 0.0;
}

bool Replicas::WithinBound(int replica, int64_t slack, double mean) const {
  const Replica& one = (*this)[replica];
  return static_cast<double>(one.outstanding() - slack) <=
         rules_.load_bound * mean * one.options().weight;
}

int Replicas::LeastLoaded(ReplicaMask replicas) const {
  int least = -1;
  const auto key = [this](int replica) {
    const Replica& one = (*this)[replica];
    const double weight = one.options().weight;
    return std::tuple(static_cast<double>(one.outstanding()) / weight, one.in_flight() / weight,
                      static_cast<double>(one.sent()) / weight);
  };
  for (; replicas != 0; replicas &= replicas - 1) {
    const int replica = std::countr_zero(replicas);
    if (least < 0 || key(replica) < key(least)) least = replica;
  }
  return least;
}

int Replicas::Preferred(const RouteAsk& ask, const PrefixTable::Match& match,
                        ReplicaMask usable) const {
  if (ask.blocks.empty()) return -1;
  const size_t first_unknown = std::min(static_cast<size_t>(match.known), ask.blocks.size() - 1);
  const uint64_t key = ask.blocks[first_unknown];
  const double mean = MeanLoad(usable);
  const int64_t saved = int64_t{match.depth} * kTokensPerPrefixBlock;
  const int holder = ring_.Find(key, match.replicas, [&](int replica) {
    return WithinBound(replica, ask.tokens + saved, mean);
  });
  if (holder >= 0) return holder;
  return ring_.Find(key, usable,
                    [&](int replica) { return WithinBound(replica, ask.tokens, mean); });
}

Route Replicas::Choose(const RouteAsk& ask, base::TimePoint now) const {
  ReplicaMask usable = Usable(now) & ask.allowed;
  if ((usable & ~ask.avoided) != 0) usable &= ~ask.avoided;
  const ReplicaMask free = ask.free & usable;
  Route route;
  if (free == 0) return route;
  route.preferred = Preferred(ask, table_.Find(ask.blocks, usable), usable);
  if (route.preferred >= 0 && (free & MaskOf(route.preferred)) != 0) {
    route.replica = route.preferred;
  } else {
    const int second = Preferred(ask, table_.Find(ask.blocks, free), free);
    route.replica = second >= 0 ? second : LeastLoaded(free);
  }
  route.cached = table_.Depth(ask.blocks, route.replica);
  if (route.preferred >= 0 && route.preferred != route.replica) {
    route.gain = table_.Depth(ask.blocks, route.preferred) - route.cached;
  }
  return route;
}

int32_t Replicas::CachedBlocks(std::span<const uint64_t> blocks) const {
  return table_.Find(blocks, kAllReplicas).depth;
}

Status Replicas::WhyNoneIsAlive(base::TimePoint now) const {
  constexpr size_t kNamed = 3;
  std::string why;
  for (size_t i = 0; i < std::min(kNamed, replicas_.size()); ++i) {
    const ReplicaView view = replicas_[i].View(now);
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", view.name,
                       view.reason.empty() ? ReplicaStateName(view.state) : view.reason);
  }
  if (replicas_.size() > kNamed) why += fmt::format("; and {} more", replicas_.size() - kNamed);
  Status status(StatusCode::kUnavailable, "no backend is available (" + why + ")");
  status.set_retry_after_seconds(scheduler::WholeSeconds(base::ToSeconds(next_look(now) - now)));
  return status;
}

std::vector<ReplicaView> Replicas::Views(base::TimePoint now) const {
  std::vector<ReplicaView> views;
  views.reserve(replicas_.size());
  for (const Replica& one : replicas_) views.push_back(one.View(now));
  return views;
}

}  // namespace ropeway::gateway
