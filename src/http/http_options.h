// Where an HTTP server listens, and every bound on what one client may cost it.
#ifndef ROPEWAY_HTTP_HTTP_OPTIONS_H_
#define ROPEWAY_HTTP_HTTP_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::http {

// An answer, or what waits of a stream, may take so much without being counted.
inline constexpr size_t kFreeAnswerBytes = size_t{16} << 10;

struct HttpLimits {
  // A larger request body is rejected with 413.
  size_t max_body_bytes = size_t{8} << 20;
  // Request line and headers; more is rejected with 431.
  size_t max_header_bytes = size_t{32} << 10;
  // Bodies of all connections together, as they come and until they are parsed; a body that
  // exceeds it is rejected with 503. Bodies of at most max_inline_body_bytes are not counted.
  size_t max_bodies_bytes = size_t{256} << 20;
  size_t max_inline_body_bytes = size_t{32} << 10;  // What an I/O thread parses itself.
  // Answers of all connections together, from when they are made until their clients have taken
  // them; one that exceeds it is not sent, or cut off. Answers of at most kFreeAnswerBytes are not
  // counted. Like the bodies they are shared between tenants (base::SharedBudget).
  size_t max_answers_bytes = size_t{256} << 20;
  // Bytes of further requests kept while one is being answered; a client that sends more is cut
  // off.
  size_t max_pipelined_bytes = size_t{64} << 10;
  int send_buffer_bytes = 256 << 10;  // The kernel's send buffer per connection; 0: its default.
  // Connections; ConnectionTable says which ones give way beyond this number.
  int max_connections = 4096;

  // From the first byte of a request to the end of its headers.
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};   // From the end of headers to the end of body.
  std::chrono::milliseconds idle_timeout{75'000};   // Between requests of one connection.
  std::chrono::milliseconds write_timeout{30'000};  // For the client to take what one write sends.
};

// Connections that may be open at one time: those that have a place, those that serve probes when
// there is none, and those that were evicted and are not closed yet. Each takes a descriptor.
int64_t MostOpen(const HttpLimits& limits);

struct HttpOptions {
  std::string host = "127.0.0.1";  // An IP address or a host name.
  uint16_t port = 0;               // 0: any free one; see HttpServer::port().
  int io_threads = 1;              // At least 1.

  // Proxies in front of the server: addresses, or networks such as "10.0.0.0/8". They may have all
  // connections, and what they say of their clients' addresses (X-Forwarded-For, or else Forwarded)
  // counts.
  std::vector<std::string> trusted_proxies;

  // Origins of the pages that may read answers: "https://app.example:8443", "*" for all, "none".
  // Empty: pages of this machine (localhost, names below it and loopback addresses) while the
  // server listens on loopback, else none.
  std::vector<std::string> cors_origins;
  // Names by which a server without keys may be called on loopback, besides its own and this
  // machine's; "*" for all.
  std::vector<std::string> allowed_hosts;

  // PEM files: the certificate with its chain, and its private key. Both or neither; with them the
  // port speaks TLS only.
  std::string tls_cert;
  std::string tls_key;

  bool access_log = false;  // A line in the log for each request (AccessLog).
};

// kInvalidArgument for a text that is none of its member's (`trusted_proxies`, `cors_origins` or
// `allowed_hosts`).
Status CheckHttpOptions(const HttpOptions& options);

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_HTTP_OPTIONS_H_
