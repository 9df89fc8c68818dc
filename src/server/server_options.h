// The HTTP server's options: where it listens, the keys that open it, and every bound on what one
// client may cost.
#ifndef ROPEWAY_SERVER_SERVER_OPTIONS_H_
#define ROPEWAY_SERVER_SERVER_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::server {

// An answer, or what waits of a stream, may take so much without being counted.
inline constexpr size_t kFreeAnswerBytes = size_t{16} << 10;

struct ServerLimits {
  // A larger request body is rejected with 413.
  size_t max_body_bytes = size_t{8} << 20;
  // Request line and headers; more is rejected with 431.
  size_t max_header_bytes = size_t{32} << 10;
  // Bodies of all connections together, as they come and until they are parsed; a body that
  // exceeds it is rejected with 503. Those of at most max_inline_body_bytes are not counted.
  size_t max_bodies_bytes = size_t{256} << 20;
  // Answers of all connections together, from when they are made until their clients have taken
  // them; one that exceeds it is not sent, or cut off. Those of at most kFreeAnswerBytes are not
  // counted. Like the bodies they are shared between tenants (base::SharedBudget).
  size_t max_answers_bytes = size_t{256} << 20;
  // Bytes of further requests kept while one is being answered; a client that sends more is cut
  // off.
  size_t max_pipelined_bytes = size_t{64} << 10;
  // Output of one stream that waits for a slow reader; beyond either, the request is cancelled.
  size_t max_stream_bytes = size_t{1} << 20;
  size_t max_stream_events = 1000;
  int send_buffer_bytes = 256 << 10;  // The kernel's send buffer per connection; 0: its default.
  // Connections; see ConnectionTable for who gives way to whom beyond it.
  int max_connections = 4096;
  api::BodyLimits body;
  // Threads for work that would block an I/O thread: large bodies, /tokenize and /detokenize. At
  // least 1.
  int helper_threads = 1;
  // Jobs of one tenant alone that run or wait on helper threads, and half of those of several
  // together (base::SharedBudget); requests that need one more are rejected with 429.
  int max_helper_jobs = 64;
  size_t max_inline_body_bytes = size_t{32} << 10;  // Larger bodies are parsed by a helper thread.

  // From the first byte of a request to the end of its headers.
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};   // From the end of headers to the end of body.
  std::chrono::milliseconds idle_timeout{75'000};   // Between requests of one connection.
  std::chrono::milliseconds write_timeout{30'000};  // For the client to take what one write sends.
  // A stream that has sent nothing for so long sends a comment line, so that proxies keep it open;
  // 0: never.
  std::chrono::milliseconds keep_alive_interval{10'000};
};

// Connections that may be open at one time: those that have a place, those that serve probes when
// there is none, and those that were evicted and are not closed yet. Each takes a descriptor.
int64_t MostOpen(const ServerLimits& limits);

// kInvalidArgument (`trusted_proxies`) for a text that is neither an address nor a network.
Status CheckTrustedProxies(const std::vector<std::string>& texts);

// An API key. Its name is the tenant of its requests, and all that logs and metrics show of it.
struct ApiKey {
  std::string name;
  std::string key;  // A secret.
  // Keys of one scope share KV blocks (Request::cache_scope); "": the key shares with no other.
  std::string cache_scope = "";
  Priority priority = Priority::kMedium;        // Of requests that name none.
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

struct ServerOptions {
  std::string host = "127.0.0.1";  // An IP address or a host name.
  uint16_t port = 0;               // 0: any free one; see HttpServer::port().
  int io_threads = 1;              // At least 1.
  ServerLimits limits;
  bool access_log = false;  // A line in the log for each request (AccessLog).

  // Proxies in front of the server: addresses, or networks such as "10.0.0.0/8". They may have all
  // connections, and what they say of their clients' addresses (X-Forwarded-For, or else Forwarded)
  // counts.
  std::vector<std::string> trusted_proxies;

  // PEM files: the certificate with its chain, and its private key. Both or neither; with them the
  // port speaks TLS only.
  std::string tls_cert;
  std::string tls_key;

  // Each opens the API (`Authorization: Bearer <key>`); without keys the API is open to all
  // clients. ReadApiKeys (api_keys.h) reads them from a file.
  std::vector<ApiKey> api_keys;
  // Opens /admin/..., /metrics and /version; "": the admin paths answer 403.
  std::string admin_key;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_SERVER_OPTIONS_H_
