// An HTTP server: accepts connections and serves each on one of a few I/O threads.
#ifndef ROPEWAY_HTTP_HTTP_SERVER_H_
#define ROPEWAY_HTTP_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "http/http_context.h"
#include "http/server_port.h"
#include "ropeway/status.h"

namespace ropeway::http {

// Thread rule: Start, ReplaceTls and Stop from one thread at a time; port() from any after Start.
class HttpServer {
 public:
  // `context` must outlive the server.
  explicit HttpServer(HttpContext* context);
  // Stops without grace.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens and starts the I/O threads, on `port` or on one that it opens. kInvalidArgument for a
  // proxy that is none, besides what ServerPort::Open fails with. Call once, one of the two.
  Status Start();
  Status Start(ServerPort port);

  // The port that the server listens on. REQUIRES: Start succeeded.
  uint16_t port() const;

  // Uses another certificate for the connections from now on. REQUIRES: it started with TLS.
  void ReplaceTls(std::shared_ptr<boost::asio::ssl::context> tls) noexcept;

  // Closes the listening socket and idle connections, waits for at most `grace` until the answers
  // in progress are sent, cancels the rest, and joins the threads. Idempotent.
  void Stop(std::chrono::milliseconds grace = std::chrono::milliseconds(0));

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_HTTP_SERVER_H_
