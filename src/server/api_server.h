// The server: the API, health and metrics over a Backend, by HTTP.
#ifndef ROPEWAY_SERVER_API_SERVER_H_
#define ROPEWAY_SERVER_API_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "http/server_port.h"
#include "ropeway/status.h"
#include "server/routes.h"
#include "server/server_options.h"
#include "service/front_desk.h"

namespace ropeway::server {

// Thread rule: Start, Reload, StopAccepting and Stop from one thread at a time; port() from any
// after Start.
class ApiServer {
 public:
  // `backend` must outlive the server.
  ApiServer(const ServerOptions& options, service::FrontDesk* backend,
            const RoutesMaker& routes = ServerRoutes);
  // Stops without grace.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // Binds, listens and starts the I/O threads. kInvalidArgument for a host, a TLS file or a key
  // that cannot be used, kUnavailable for a port that is in use or forbidden. Call once.
  Status Start();
  // Starts on a port that was opened earlier, with the same options.
  Status Start(http::ServerPort port);

  // The port that the server listens on. REQUIRES: Start succeeded.
  uint16_t port() const;

  // Requests that were answered, also with an error. Any thread.
  int64_t answered() const;

  // Takes the API keys and the admin key of `options`, and nothing else of `options`: they hold
  // from the next request of each connection on. Takes the certificate and key of `files` for new
  // connections; absent: they stay. Requests under way go on, and tenants keep what they have used.
  // Changes all or nothing: it fails as Start does, and also where a server without keys would get
  // some, one with keys would lose its last, or one that started without a gateway's key would get
  // one. Reads no file. REQUIRES: Start succeeded; `files` only where Start had some.
  Status Reload(const ServerOptions& options,
                const std::optional<http::TlsFiles>& files = std::nullopt);

  // Rejects new generation requests with 503 from now on; every connection closes after its answer.
  // What runs goes on, and the health routes still answer.
  void StopAccepting();

  // Closes the listening socket and idle connections, waits for at most `grace` until the answers
  // in progress are sent, cancels the rest, and joins the threads. Idempotent.
  void Stop(std::chrono::milliseconds grace = std::chrono::milliseconds(0));

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_API_SERVER_H_
