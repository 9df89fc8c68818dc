// The backends of one model: how many requests each may have, whether it may have any, and which of
// them gets the next one.
#ifndef ROPEWAY_GATEWAY_REPLICAS_H_
#define ROPEWAY_GATEWAY_REPLICAS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/concurrency.h"
#include "gateway/prefix_ring.h"
#include "ropeway/backend.h"
#include "ropeway/options.h"
#include "ropeway/status.h"
#include "scheduler/batch_size_control.h"

namespace ropeway::gateway {

// Replicas of one model, at most: a set of them is a ReplicaMask.
inline constexpr size_t kMaxReplicas = 64;
inline constexpr ReplicaMask kAllReplicas = ~ReplicaMask{0};
inline ReplicaMask MaskOf(int replica) { return ReplicaMask{1} << replica; }

struct HealthOptions {
  base::Duration probe_interval = std::chrono::seconds(5);  // For one that takes requests.
  base::Duration probe_again = std::chrono::seconds(1);     // For one that does not.
  base::Duration probe_timeout = std::chrono::seconds(5);   // Then a probe has failed.
  // Failures in a row after which a replica is ejected; one that takes no connection counts twice.
  int failures = 3;
  int probe_failures = 2;  // Failed probes in a row after which it is ejected.
  // How long it is ejected, at least. It returns when a probe after that succeeds. Where its
  // requests failed, doubled with each time, up to the longest; from the start again once it has
  // done without for `forgiven`. One that was not there is back when it answers.
  base::Duration ejection = std::chrono::seconds(1);
  base::Duration longest_ejection = std::chrono::seconds(30);
  base::Duration forgiven = std::chrono::seconds(60);
  // Its places grow to their number over this time when it returns.
  base::Duration return_time = std::chrono::seconds(10);
};

struct ReplicaRules {
  PlacesOptions places;         // What is learned; `most` binds also what is reported.
  bool memory_control = false;  // --batch-control memory, where a replica reports its memory.
  HealthOptions health;
  size_t table_entries = size_t{1} << 18;  // Size of the prefix table, at most: 24 bytes each.
  // Tenants that may send requests, as far as is known. Where there are several, each replica keeps
  // a place for one that has none there: see PlaceAsk.
  int tenants = 1;
  // A request is sent where its prefix is cached only if the tokens outstanding there are at most
  // so many times the mean, and its own, and those that the cache saves.
  double load_bound = 1.25;
};

// How a replica does, for operators.
struct ReplicaView {
  enum class State {
    kUp,
    kReturning,  // Up, with less than all of its places yet.
    kBusy,       // It said that it has too much to do, a moment ago.
    kNotReady,   // It says that it takes no requests.
    kDraining,   // It is to get no more.
    kEjected,    // It failed.
  };
  std::string name;
  State state = State::kUp;
  std::string reason;  // Why it gets no requests; "": it does.
  int in_flight = 0;
  int places = 0;       // That it may have in flight.
  bool learned = true;  // `places` was learned; else it is set, or reported.
  int64_t outstanding_tokens = 0;
  uint64_t sent = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;
  uint64_t ejections = 0;
  // Of the last completed requests, up to 256; 0: there are none.
  base::Duration latency_p50{};
  base::Duration latency_p99{};
  BackendFacts facts;  // As of its last good probe.
};

const char* ReplicaStateName(ReplicaView::State state);

// The request for which a place is asked. A newcomer is a request of a tenant that runs nothing at
// the replica.
//
// - With several tenants, a replica of two or more places keeps one for newcomers, as long as some
//   tenant runs nothing there.
// - A replica that shares its machine between tenants by itself (BackendFacts) keeps none of its
//   places. It takes requests of class high and newcomers beyond them, half as many as it has
//   places, and keeps one of these extra places for newcomers if there are two or more.
// - A replica that preempts and does not share takes requests of class high beyond its places only
//   from newcomers while it keeps a place: others would be in the newcomer's way.
struct PlaceAsk {
  bool newcomer = true;
  bool beyond = false;  // It may go beyond the places of a replica that preempts.
};

// One replica. Thread rule: the dispatcher's.
class Replica {
 public:
  Replica(BackendOptions options, const ReplicaRules& rules);

  const BackendOptions& options() const { return options_; }

  // Requests.

  // Whether its health lets it take requests, now or after a pause.
  bool alive() const { return !draining_ && ready_ && !ejected_; }
  // Whether it takes requests now.
  bool usable(base::TimePoint now) const { return alive() && now >= busy_until_; }
  // Requests that it may have at once now; at least 1.
  int limit(base::TimePoint now) const;
  // Requests that may be sent to it now: 0 if it is not usable.
  int free_places(base::TimePoint now, const PlaceAsk& ask = {}) const;
  // Places that only a newcomer gets now: 0 or 1.
  int kept_places(base::TimePoint now) const;
  // Whether it shares its machine between tenants by itself: newcomers may go beyond its places.
  bool shares() const { return facts_.preempts && facts_.shares_tenants; }
  int in_flight() const { return in_flight_; }
  int tenants() const { return tenants_; }  // Tenants that run something here.
  uint64_t sent() const { return sent_; }
  int64_t outstanding() const { return outstanding_; }

  // `newcomer`: its tenant ran nothing here.
  void OnSent(int64_t tokens, bool newcomer, base::TimePoint now);
  // Some of the tokens that were outstanding are done.
  void OnTokens(int64_t tokens) { outstanding_ -= tokens; }
  void OnFirstByte(base::Duration took, int32_t prompt_tokens, base::TimePoint now);
  // A request is not there any more; `tokens` of it were outstanding. `last`: its tenant runs
  // nothing else here.
  void OnLeft(int64_t tokens, bool last);
  void OnCompleted(base::Duration latency, base::TimePoint now);
  // `last`: no other replica is usable, so failures of requests alone do not eject this one.
  // Returns whether it was ejected.
  bool OnFailure(FailureKind kind, int retry_after_seconds, bool last, base::TimePoint now);

  // Whether a probe is due: then it counts as sent, and `probe` is its number. A probe without an
  // answer for probe_timeout has failed; sets `ejected` if that ejected the replica.
  bool TakeProbe(base::TimePoint now, uint64_t* probe, bool* ejected);
  // Takes the answer to a probe; a late one has no effect. `alone`: no other replica is usable, so
  // an ejection may end early. Returns whether the answer ejected the replica.
  bool OnProbe(uint64_t probe, const StatusOr<BackendFacts>& facts, bool alone,
               base::TimePoint now);
  void set_draining(bool draining) { draining_ = draining; }
  bool draining() const { return draining_; }

  // When time alone changes something here: a probe, places, the end of a pause.
  base::TimePoint next_look(base::TimePoint now) const;

  // What decides which bits it gives: replicas with equal identities go on where others left off.
  // Null: it is not known, or not since its last failure.
  const std::shared_ptr<const std::string>& identity() const { return identity_; }

  // It is ejected, and its probes fail.
  bool unheard() const { return unheard_; }

  // Why it failed last: for clients that are told that there is no replica.
  const std::string& reason() const { return reason_; }
  ReplicaView View(base::TimePoint now) const;

 private:
  // `doubles`: see HealthOptions::ejection.
  void Eject(std::string reason, bool doubles, base::TimePoint now);
  void Return(base::TimePoint now);
  bool OnProbeFailed(const std::string& reason, base::TimePoint now);
  // The bound on its places: set, reported, or the most that is learned.
  int Bound() const;
  // A tenant that runs nothing here may yet come.
  bool expects_newcomers() const { return rules_.tenants > 1 && tenants_ < rules_.tenants; }
  // Part of its places that it has, while it returns.
  double Ramp(base::TimePoint now) const;

  const BackendOptions options_;
  const ReplicaRules rules_;
  LearnedPlaces learned_;
  std::optional<scheduler::MemoryBatchSize> memory_;
  BackendFacts facts_;
  std::shared_ptr<const std::string> identity_;
  // Requests of other clients that it had at the last probe, and at the one before.
  int others_ = 0;
  int others_before_ = 0;
  int peak_ = 0;  // The most that were in flight since the last probe was sent.

  int in_flight_ = 0;
  int tenants_ = 0;
  int64_t outstanding_ = 0;

  bool draining_ = false;
  bool ready_ = true;
  bool ejected_ = false;
  bool unheard_ = false;
  std::string reason_;
  base::TimePoint busy_until_{};
  int busy_in_a_row_ = 0;
  int strikes_ = 0;
  int probe_strikes_ = 0;
  int ejections_in_a_row_ = 0;
  base::TimePoint ejected_at_{};
  base::TimePoint ejected_until_{};
  base::TimePoint returned_at_ = base::TimePoint::min() / 2;  // Long ago.

  base::TimePoint next_probe_{};
  uint64_t probe_ = 0;  // Number of the newest.
  bool probe_pending_ = false;
  base::TimePoint probe_sent_{};

  uint64_t sent_ = 0;
  uint64_t completed_ = 0;
  uint64_t failed_ = 0;
  uint64_t ejections_ = 0;
  std::vector<base::Duration> latencies_;  // A ring of the last ones.
  size_t next_latency_ = 0;
};

// What a request asks of the replicas.
struct RouteAsk {
  std::span<const uint64_t> blocks;    // PrefixBlocks of its prompt.
  int64_t tokens = 1;                  // Predicted, of its prompt and its output.
  ReplicaMask free = kAllReplicas;     // Replicas with a place for it.
  ReplicaMask allowed = kAllReplicas;  // Replicas that can take it.
  ReplicaMask avoided = 0;             // Replicas where it failed: used only if there is no other.
};

// Where a request goes.
struct Route {
  int replica = -1;    // -1: none that can take it has a free place.
  int preferred = -1;  // The one that it would rather go to; -1: none is better.
  // Blocks of its prompt that are thought to be cached at `preferred` and, if that is another one,
  // not at `replica`.
  int32_t gain = 0;
  int32_t cached = 0;  // Blocks that are thought to be cached at `replica`.
};

// All replicas of a model. Thread rule: the dispatcher's.
class Replicas {
 public:
  // REQUIRES: 1 to kMaxReplicas options.
  Replicas(std::vector<BackendOptions> options, const ReplicaRules& rules);

  size_t size() const { return replicas_.size(); }
  Replica& operator[](int replica) { return replicas_[static_cast<size_t>(replica)]; }
  const Replica& operator[](int replica) const { return replicas_[static_cast<size_t>(replica)]; }

  // The replicas that are alive.
  ReplicaMask Alive() const;
  // The replicas that take requests now.
  ReplicaMask Usable(base::TimePoint now) const;
  // The usable replicas with a free place.
  ReplicaMask Free(base::TimePoint now, const PlaceAsk& ask = {}) const;
  // The replicas that may ever go on with an output of this identity; null: none.
  ReplicaMask CanResume(const std::string* identity) const;
  // The replicas that share their machine between tenants by themselves.
  ReplicaMask Sharing() const;
  // The usable replicas with a single place that do not share their machine, if there are several:
  // none can keep a place of its own, so they keep one of their places together.
  ReplicaMask KeepingTogether(base::TimePoint now) const;
  // Places that a tenant without running requests could have now, in all classes.
  int newcomer_places(base::TimePoint now) const;
  int free_places(base::TimePoint now, const PlaceAsk& ask = {}) const;
  int kept_places(base::TimePoint now) const;
  // Requests that all replicas that are alive may have together; at least 1.
  int limit(base::TimePoint now) const;

  // Picks a replica: the one that holds most of the prompt, unless its load is above the bound;
  // then by consistent hashing over the first block that no replica holds; then the one with the
  // least outstanding tokens by weight. If several hold as much, it is the first on the ring.
  Route Choose(const RouteAsk& ask, base::TimePoint now) const;
  // Blocks of the prompt that are thought to be cached at the replica that holds the most.
  int32_t CachedBlocks(std::span<const uint64_t> blocks) const;
  // The request was sent there: its blocks are cached there from now on.
  void NoteSent(std::span<const uint64_t> blocks, int replica) { table_.Note(blocks, replica); }
  // The replica has lost its cache, or is taken to have.
  void ForgetCache(int replica) { table_.Forget(replica); }

  base::TimePoint next_look(base::TimePoint now) const;

  // Why no replica is alive: kUnavailable with the reasons and Retry-After.
  Status WhyNoneIsAlive(base::TimePoint now) const;
  std::vector<ReplicaView> Views(base::TimePoint now) const;

 private:
  // The replicas for which `holds` is true.
  template <typename Holds>  // bool(const Replica&)
  ReplicaMask Those(Holds holds) const;
  // Whether the replica's load, less `slack` tokens, is within the bound; `mean`: tokens by weight.
  bool WithinBound(int replica, int64_t slack, double mean) const;
  double MeanLoad(ReplicaMask replicas) const;
  int LeastLoaded(ReplicaMask replicas) const;
  // The one to prefer among `usable`, whatever its places; -1: no prefix tells.
  int Preferred(const RouteAsk& ask, const PrefixTable::Match& match, ReplicaMask usable) const;

  const ReplicaRules rules_;
  std::vector<Replica> replicas_;
  HashRing ring_;
  PrefixTable table_;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_REPLICAS_H_
