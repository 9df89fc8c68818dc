// What all connections of one server share.
#ifndef ROPEWAY_SERVER_SERVER_CONTEXT_H_
#define ROPEWAY_SERVER_SERVER_CONTEXT_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fair_pool.h"
#include "base/shared_budget.h"
#include "engine/backend.h"
#include "server/access.h"
#include "server/access_log.h"
#include "server/client_address.h"
#include "server/connection_table.h"
#include "server/key_limits.h"
#include "server/route.h"
#include "server/routes.h"
#include "server/server_options.h"
#include "server/socket_stream.h"

namespace ropeway::server {

// The server's own metrics; the backend's are beside them in /metrics. Thread-safe.
class ServerMetrics {
 public:
  ServerMetrics();

  // A request of `tenant`, "" if it has none, answered with HTTP status `code`; 499 if the client
  // left before.
  void CountRequest(std::string_view route, int code, const std::string& tenant);
  int64_t answered() const { return answered_; }
  // Drops the numbers of the tenants of which `remembered` says no.
  void ForgetTenants(const std::function<bool(const std::string&)>& remembered);
  void CountSlowReader() { slow_readers_->Increment(); }
  // An answer that was not sent whole: its tenant's take too much memory.
  void CountCutAnswer() { cut_answers_->Increment(); }
  // A connection that found no place.
  void CountRejectedConnection() { rejected_connections_->Increment(); }
  // A connection that gave its place to a newer one.
  void CountEvictedConnection() { evicted_connections_->Increment(); }
  void ConnectionOpened() { connections_->Increment(); }
  void ConnectionClosed() { connections_->Decrement(); }

  // Both in the Prometheus text format. The series of all tenants, or of `tenant` alone if that is
  // not "", are a text of their own.
  std::string Text() const;
  std::string TenantText(const std::vector<KeyUsage>& usage, const std::string& tenant) const;

 private:
  prometheus::MetricFamily TenantRequests() const;

  std::atomic<int64_t> answered_{0};
  mutable std::mutex mutex_;
  // By tenant and code. Guarded by mutex_. Counters of the library's could not be dropped while
  // they may be counted in.
  std::map<std::string, std::map<int, int64_t>> tenant_requests_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>* requests_;
  prometheus::Counter* slow_readers_;
  prometheus::Counter* cut_answers_;
  prometheus::Counter* rejected_connections_;
  prometheus::Counter* evicted_connections_;
  prometheus::Gauge* connections_;
};

// Counts in `*count` for the time of a scope.
class CountScope {
 public:
  explicit CountScope(std::atomic<int>* count) : count_(count) { ++*count; }
  ~CountScope() { --*count_; }
  CountScope(const CountScope&) = delete;
  CountScope& operator=(const CountScope&) = delete;

 private:
  std::atomic<int>* const count_;
};

// Work for the helper threads, in pieces of a few milliseconds where it can be cut: does the next
// one, and returns the result once there is one. It owns what it uses, as it may outlive whom it is
// for.
using HelperWork = std::function<std::optional<StatusOr<std::string>>()>;

// Thread-safe: constant but for atomics and members with their own locks.
class ServerContext {
 public:
  // `backend` must outlive the context.
  ServerContext(const ServerOptions& options, engine::Backend* backend, const RoutesMaker& routes);

  const ServerOptions options;  // Without the keys, which only `access` needs.
  const RouteTable routes;
  Access access;
  const ServerLimits& limits() const { return options.limits; }
  const bool open;  // There are no keys: who has none is a user, not a stranger.
  engine::Backend* const backend;
  const SamplingParams sampling;  // Of a request that does not say: the model's.
  const TrustedProxies proxies;
  KeyLimits key_limits;
  ServerMetrics metrics;
  const std::unique_ptr<AccessLog> access_log;  // Null: none.
  ConnectionTable connections;
  base::SharedBudget bodies;  // Bytes of the bodies that are being received or parsed.
  // Bytes of the answers that are gathered or being sent. The backend's sinks may outlive the
  // server.
  const std::shared_ptr<base::SharedBudget> answers;
  // Charges `bytes` of an answer to `tenant`, as long as `hold` lives. False: its answers take too
  // much; nothing is charged. REQUIRES: `hold` is empty.
  bool ChargeAnswer(const std::string& tenant, size_t bytes, base::SharedBudget::Hold* hold);
  // Whether new generation requests are taken. An admin ends a drain; nobody ends a stop.
  enum class State { kServing, kDraining, kStopping };
  std::atomic<State> state{State::kServing};
  bool accepting() const { return state == State::kServing; }
  std::atomic<bool> closing{false};  // Connections end after the request in progress.
  std::atomic<int> active{0};        // Requests received whole and not answered yet.

  // A name for a request and its answer that no other has, not even of an earlier run of the
  // server.
  std::string NewId();

  // Runs `work` on the helper threads, in fair shares of their time, and resumes the caller, which
  // serves `stream`, with its result. kResourceExhausted if too many jobs of its tenant run or
  // wait; an exception of `work` becomes a status (StatusFromException). kCancelled once the client
  // has left: then a piece of `work` may still run, but no more begins.
  boost::asio::awaitable<StatusOr<std::string>> RunOnHelper(base::Flow flow,
                                                            std::shared_ptr<SocketStream> stream,
                                                            HelperWork work);

  // Waits for the pieces that run, and drops the rest. Called when no connection is left.
  void StopHelpers() { helpers_.Stop(); }

 private:
  class HelperJob;

  const std::string run_;  // Random.
  std::atomic<uint64_t> count_{0};
  base::FairPool helpers_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_SERVER_CONTEXT_H_
