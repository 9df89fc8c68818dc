// What all connections of one HTTP server share, and what the server asks the room above it.
#ifndef ROPEWAY_HTTP_HTTP_CONTEXT_H_
#define ROPEWAY_HTTP_HTTP_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_budget.h"
#include "http/access_record.h"
#include "http/caller.h"
#include "http/client_address.h"
#include "http/connection_table.h"
#include "http/cross_origin.h"
#include "http/http_error.h"
#include "http/http_metrics.h"
#include "http/http_options.h"
#include "http/http_reply.h"
#include "http/request_parser.h"
#include "http/route.h"

namespace ropeway::http {

// What stands behind an HTTP server, beside the handlers of its routes. Thread-safe.
class HttpApplication {
 public:
  virtual ~HttpApplication() = default;

  // The caller that `head` names, and whether it may use a route of these rights.
  virtual Verdict Check(Rights rights, const RequestHead& head) const = 0;
  // The reply to a request of `tenant` that failed with `status`. REQUIRES: !status.ok().
  virtual HttpReply Rejection(const Status& status, const std::string& tenant) const = 0;
  // The body of an error on routes that have no shape of their own.
  virtual std::string ErrorBody(const HttpError& error) const = 0;
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

// Thread-safe: constant except for atomics and members with their own locks.
class HttpContext {
 public:
  // `open`: there are no keys. `nothing` answers what is no path of `routes`. `application` must
  // outlive the context.
  HttpContext(const HttpOptions& options, const HttpLimits& limits, bool open,
              std::vector<Route> routes, Route nothing, const HttpApplication* application);

  const HttpOptions options;
  const HttpLimits limits;
  const bool open;  // A client without a key is a user, not a stranger.
  const RouteTable routes;
  const HttpApplication* const application;
  const TrustedProxies proxies;
  const OriginRule origins;
  const HostRule hosts;
  HttpMetrics metrics;
  const std::unique_ptr<AccessLog> access_log;  // Null: none.
  ConnectionTable connections;
  base::SharedBudget bodies;  // Bytes of the bodies that are being received or parsed.
  // Bytes of the answers that are gathered or being sent. What gathers them may outlive the server.
  const std::shared_ptr<base::SharedBudget> answers;
  // Charges `bytes` of an answer to `tenant`, as long as `hold` lives. False: its answers take too
  // much; nothing is charged. REQUIRES: `hold` is empty.
  bool ChargeAnswer(const std::string& tenant, size_t bytes, base::SharedBudget::Hold* hold);
  std::atomic<bool> on_loopback{false};  // The server listens there; set before it serves.
  // Whether new work is taken; else connections end after their answer. An admin can end a drain; a
  // stop is final.
  enum class State { kServing, kDraining, kStopping };
  std::atomic<State> state{State::kServing};
  bool accepting() const { return state == State::kServing; }
  std::atomic<bool> closing{false};  // Connections end after the request in progress.
  std::atomic<int> active{0};        // Requests received whole and not answered yet.

  // A name for a request and its answer that no other has, not even of an earlier run of the
  // server.
  std::string NewId();

 private:
  const std::string run_;  // Random.
  std::atomic<uint64_t> count_{0};
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_HTTP_CONTEXT_H_
