// The sender of a request, and what it may do.
#ifndef ROPEWAY_HTTP_CALLER_H_
#define ROPEWAY_HTTP_CALLER_H_

#include <optional>
#include <string>

#include "base/fair_pool.h"
#include "http/http_reply.h"
#include "ropeway/request.h"

namespace ropeway::http {

// The callers that may use a route. What a caller sees there may also depend on its key.
enum class Rights {
  kOpen,        // All clients.
  kKey,         // API keys; all clients where there are none.
  kKeyOrAdmin,  // What kKey admits, and the admin key.
  kMetrics,     // What kKeyOrAdmin admits, and keys for metrics alone.
  kView,        // The admin key alone; all clients where there is no key at all.
  kAdmin,       // The admin key alone.
};

// The sender of a request, as its API key defines it; the defaults where no key is needed.
struct Caller {
  std::string tenant;       // The key's name; "" where no key is needed.
  std::string cache_scope;  // The key's.
  Priority priority = Priority::kMedium;
  Priority priority_ceiling = Priority::kHigh;
  double weight = 1.0;
  bool admin = false;  // It sent the admin key, which has no name.
  // It may see the numbers of all tenants together: it is the admin or a gateway, or its key is for
  // metrics, or there are no two other keys. From a sum and its own numbers a tenant would learn
  // another's.
  bool sees_all = true;
  bool gateway = false;       // It may name the tenant that it sends for.
  bool metrics_only = false;  // Its key opens no other route.
};

// The flow that helper threads charge their time for `caller` to: its tenant, in its key's class.
inline base::Flow FlowOf(const Caller& caller) {
  return {
      .tenant = caller.tenant, .cls = static_cast<int>(caller.priority), .weight = caller.weight};
}

// Whether a request may use a route.
struct Verdict {
  std::optional<HttpReply> rejection;  // 400, 401 or 403; absent: it may.
  Caller caller;                       // Where there is no rejection.
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_CALLER_H_
