// What all connections of one server share.
#ifndef ROPEWAY_SERVER_SERVER_CONTEXT_H_
#define ROPEWAY_SERVER_SERVER_CONTEXT_H_

#include <atomic>
#include <string>

#include "base/byte_budget.h"
#include "engine/backend.h"
#include "server/access.h"
#include "server/helper_pool.h"
#include "server/key_limits.h"
#include "server/server_metrics.h"
#include "server/server_options.h"

namespace ropeway {

// Thread-safe: constant but for atomics and what locks itself.
class ServerContext {
 public:
  // `backend` must outlive the context.
  ServerContext(const ServerOptions& options, Backend* backend);

  const ServerOptions options;  // Without the keys: what `access` has of them is enough.
  const Access access;
  const ServerLimits& limits() const { return options.limits; }
  Backend* const backend;
  KeyLimits key_limits;
  ServerMetrics metrics;
  ByteBudget bodies;
  HelperPool helpers;
  std::atomic<bool> accepting{true};  // New generation requests are taken.
  std::atomic<bool> closing{false};   // Connections end after the request in progress.
  std::atomic<int> active{0};         // Requests received whole and not answered yet.

  // A name for an answer that no other answer has, also not of an earlier run of the server.
  std::string NewId(const char* prefix);

 private:
  const std::string run_;  // Random.
  std::atomic<uint64_t> count_{0};
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_SERVER_CONTEXT_H_
