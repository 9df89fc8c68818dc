// What the handlers of one server share.
#ifndef ROPEWAY_SERVER_SERVER_CONTEXT_H_
#define ROPEWAY_SERVER_SERVER_CONTEXT_H_

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fair_pool.h"
#include "http/exchange.h"
#include "http/http_context.h"
#include "http/socket_stream.h"
#include "server/api_keys.h"
#include "server/event_feed.h"
#include "server/key_limits.h"
#include "server/model_pulls.h"
#include "server/server_options.h"
#include "server/stored_answers.h"
#include "service/front_desk.h"

namespace ropeway::server {

// Logs the names of unknown fields in requests, each once. Thread-safe.
class IgnoredFields {
 public:
  void Log(const std::vector<std::string>& names);

 private:
  static constexpr size_t kMostNames = 100;
  std::mutex mutex_;
  std::set<std::string> logged_;  // At most kMostNames; further ones are not logged.
};

// Work for the helper threads. Each call does one piece, of a few milliseconds where the work can
// be cut, and returns the result once there is one. It owns what it uses: it may outlive the
// connection that asked for it.
using HelperWork = std::function<std::optional<StatusOr<std::string>>()>;

// Thread-safe: constant except for atomics and members with their own locks.
class ServerContext final : public http::HttpApplication {
 public:
  // `backend` must outlive the context. `routes` makes the rows of what it serves (routes.h),
  // `other` what answers all other paths.
  ServerContext(const ServerOptions& options, service::FrontDesk* backend,
                const std::function<std::vector<http::Route>(ServerContext*)>& routes,
                const std::function<http::Route(ServerContext*)>& other);

  http::Verdict Check(http::Rights rights, const http::RequestHead& head) const override;
  // With the headers that say whether and when to retry. REQUIRES: !status.ok().
  http::HttpReply Rejection(const Status& status, const std::string& tenant) const override;
  std::string ErrorBody(const http::HttpError& error) const override;
  // The reply of a request of `tenant` with this body, or with why there is none.
  http::HttpReply ReplyOf(StatusOr<std::string> body, const std::string& tenant) const;

  const ServerLimits& limits() const { return limits_; }

  http::HttpContext http;
  Access access;
  service::FrontDesk* const backend;
  const SamplingParams sampling;               // The model's, for requests that give none.
  const bool any_model;                        // ServerOptions::any_model.
  const std::vector<std::string> other_names;  // ServerOptions::other_names.
  const bool web;                              // ServerOptions::web.
  KeyLimits key_limits;
  EventFeed events;
  ModelPulls pulls;
  const std::unique_ptr<StoredAnswers> stored;  // Null: the server stores no answers.

  // Divides the room for what is stored between tenants, where these keys have several.
  void ShareStore(const std::vector<ApiKey>& keys) const;

  // Tells of a body's fields that are ignored: in the header of the answer, and of each once in the
  // log.
  void TellIgnored(const std::vector<std::string>& names, http::Exchange* exchange);

  // Runs `work` on the helper threads, in fair shares of their time, and resumes the caller, which
  // serves `stream`, with its result. kResourceExhausted if too many jobs of its tenant run or
  // wait. An exception of `work` becomes a status (StatusFromException). kCancelled once the client
  // has left: a piece of `work` may still run then, but no further one begins.
  boost::asio::awaitable<StatusOr<std::string>> RunOnHelper(
      base::Flow flow, std::shared_ptr<http::SocketStream> stream, HelperWork work);

  // Waits for the pieces that run, and drops the rest. Called when no connection is left.
  void StopHelpers() { helpers_.Stop(); }

 private:
  class HelperJob;

  const ServerLimits limits_;
  IgnoredFields ignored_fields_;
  base::FairPool helpers_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_SERVER_CONTEXT_H_
