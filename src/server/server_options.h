// How the HTTP server is set up: where it listens, and every bound on what one client may cost.
#ifndef ROPEWAY_SERVER_SERVER_OPTIONS_H_
#define ROPEWAY_SERVER_SERVER_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

struct ServerLimits {
  size_t max_body_bytes = size_t{8} << 20;  // A larger request body is refused with 413.
  size_t max_header_bytes = size_t{32}
                            << 10;  // Request line and headers; more is refused with 431.
  // Bodies of all connections together, from their headers until they are parsed; what would exceed
  // it is refused with 503. Those of at most max_inline_body_bytes are not counted.
  size_t max_bodies_bytes = size_t{256} << 20;
  // Bytes of further requests kept while one is being answered; a client that sends more is cut
  // off.
  size_t max_pipelined_bytes = size_t{64} << 10;
  // Output of one stream that waits for a slow reader; beyond either, the request is cancelled.
  size_t max_stream_bytes = size_t{1} << 20;
  size_t max_stream_events = 1000;
  int send_buffer_bytes = 256 << 10;  // The kernel's send buffer per connection; 0: its default.
  int max_connections = 4096;         // Connections beyond are answered 503 and closed.
  int max_json_depth = 32;
  size_t max_json_values = 1'000'000;  // Values and keys in one body.
  int max_choices = 128;               // Prompts times `n` of one request.
  // Threads for what would hold up an I/O thread: large bodies, /tokenize and /detokenize. At least
  // one; and jobs of theirs that run or wait: beyond, requests that need one are refused with 429.
  int helper_threads = 1;
  int max_helper_jobs = 64;
  size_t max_inline_body_bytes = size_t{32} << 10;  // Larger bodies are parsed by a helper thread.

  std::chrono::milliseconds header_timeout{
      10'000};                                     // First byte of a request to end of its headers.
  std::chrono::milliseconds body_timeout{60'000};  // End of headers to end of body.
  std::chrono::milliseconds idle_timeout{75'000};  // Between requests of one connection.
  std::chrono::milliseconds write_timeout{30'000};  // For the client to take what one write sends.
  // A stream that has sent nothing for so long sends a comment line, so that proxies keep it open;
  // 0: never.
  std::chrono::milliseconds keep_alive_interval{10'000};
};

// Who may use the API. The name is the tenant of the key's requests, and all that logs and metrics
// ever show of it.
struct ApiKey {
  std::string name;
  std::string key;  // A secret.
  // Keys with the same one share KV blocks (Request::cache_scope); "": the key shares with no
  // other.
  std::string cache_scope = "";
  Priority priority = Priority::kMedium;        // Of requests that name none.
  Priority priority_ceiling = Priority::kHigh;  // The highest that requests may name.
  double weight = 1.0;  // Its share under the policy "fair", against those of other keys.
  int max_concurrent_requests = 0;  // Requests under way; more are refused with 429. 0: no limit.
  // Prompt and generated tokens; who has used more is refused with 429. 0: no limit.
  int64_t tokens_per_minute = 0;
};

// What weight, max_concurrent_requests and tokens_per_minute of a key may be.
inline constexpr double kMinKeyWeight = 0.01;
inline constexpr double kMaxKeyWeight = 100;
inline constexpr int64_t kMaxKeyRequests = 1'000'000;
inline constexpr int64_t kMaxKeyTokens = 1'000'000'000'000;

struct ServerOptions {
  std::string host = "127.0.0.1";  // An IP address or a host name.
  uint16_t port = 0;               // 0: any free one; see HttpServer::port().
  int io_threads = 1;              // At least 1.
  ServerLimits limits;

  // PEM files: the certificate with its chain, and its private key. Both or neither; with them the
  // port speaks TLS only.
  std::string tls_cert;
  std::string tls_key;

  // Any of them opens the API (`Authorization: Bearer <key>`); none: the API is open to everybody.
  // From a file: ReadApiKeys (api_keys.h). One given without a name is called "default".
  std::vector<ApiKey> api_keys;
  // Opens /admin/..., and /metrics and /version; "": the admin paths answer 403.
  std::string admin_key;
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_SERVER_OPTIONS_H_
