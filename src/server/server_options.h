// The server's options: where it listens, the keys that open it, and every bound on what one client
// may cost.
#ifndef ROPEWAY_SERVER_SERVER_OPTIONS_H_
#define ROPEWAY_SERVER_SERVER_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "http/http_options.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::store {
class ObjectStore;
}  // namespace ropeway::store

namespace ropeway::server {

struct ServerLimits : http::HttpLimits {
  // Output of one stream that waits for a slow reader; beyond either, the request is cancelled.
  size_t max_stream_bytes = size_t{1} << 20;
  size_t max_stream_events = 1000;
  api::BodyLimits body;
  // Threads for work that would block an I/O thread: large bodies, /tokenize and /detokenize. At
  // least 1.
  int helper_threads = 1;
  // Jobs that may run or wait on helper threads: of one tenant alone so many, of several tenants
  // together twice as many (base::SharedBudget). Requests that need one more are rejected with 429.
  int max_helper_jobs = 64;
  // A stream that has sent nothing for so long sends a comment line, so that proxies keep it open;
  // 0: never.
  std::chrono::milliseconds keep_alive_interval{10'000};
};

// An API key. Its name is the tenant of its requests, and all that logs and metrics show of it.
struct ApiKey {
  std::string name;
  std::string key;  // A secret.
  // Keys of one scope share KV blocks (Request::cache_scope); "": the key shares with no other.
  std::string cache_scope = "";
  Priority priority = Priority::kMedium;        // For requests that name none.
  Priority priority_ceiling = Priority::kHigh;  // The highest that requests may name.
  double weight = 1.0;  // The key's share under the policy "fair", relative to other keys.
  // Unfinished requests of the key; more are rejected with 429. 0: no limit.
  int max_concurrent_requests = 0;
  // Prompt and generated tokens; requests beyond are rejected with 429. 0: no limit.
  int64_t tokens_per_minute = 0;
  // A gateway's: its requests may name their tenant, and go on where another server left off
  // (GatewayFields).
  bool gateway = false;
  // Opens /metrics, with the numbers of all tenants, and nothing else.
  bool metrics_only = false;
};

// Ranges of max_concurrent_requests and tokens_per_minute of a key.
inline constexpr int64_t kMaxKeyRequests = 1'000'000;
inline constexpr int64_t kMaxKeyTokens = 1'000'000'000'000;

// How far a pull of a model is.
struct PullProgress {
  std::string status;       // What is done, for people.
  std::string digest = {};  // Of the file that comes, or its name; "": none does.
  uint64_t total = 0;       // Bytes of that; 0: not known.
  uint64_t completed = 0;
};
// Fetches the model of this name, and returns by what name it can be served then. Calls `tell` as
// it goes, and gives up soon after that has returned false. Blocks for as long as it takes.
using PullModelFn = std::function<StatusOr<std::string>(
    const std::string& name, const std::function<bool(PullProgress)>& tell)>;

struct ServerOptions : http::HttpOptions {
  ServerLimits limits;

  // Each opens the API (`Authorization: Bearer <key>`, or `X-Api-Key: <key>`); without keys the API
  // is open to all clients. ReadApiKeys (api_keys.h) reads them from a file.
  std::vector<ApiKey> api_keys;
  // Opens /admin/..., /metrics and /version; "": the admin paths answer 403.
  std::string admin_key;
  // Where there is one model, a request may call it as it likes, but a gateway's: that routes by
  // names.
  bool any_model = false;
  // Serves the page at "/" (web/).
  bool web = true;
  // What requests may call that one model besides the names that it lists.
  std::vector<std::string> other_names;
  // Where answers and conversations are stored; must outlive the server. Null: nowhere.
  store::ObjectStore* objects = nullptr;
  // What POST /api/pull calls; null: no request may pull a model. It may outlive the server.
  PullModelFn pull_model = nullptr;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_SERVER_OPTIONS_H_
