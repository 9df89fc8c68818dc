// An engine's server as a backend of the gateway: HTTP, whatever the server speaks (wire_format.h).
#ifndef ROPEWAY_GATEWAY_HTTP_BACKEND_H_
#define ROPEWAY_GATEWAY_HTTP_BACKEND_H_

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "api/wire_format.h"
#include "base/clock.h"
#include "net/http_pool.h"
#include "ropeway/backend.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::gateway {

struct HttpBackendOptions {
  // Its URL's path is used as the API's path, such as /v1 or /v3; without one it is /v1.
  // For kinds with paths of their own, one that is no version is the server's, and /v1 follows it.
  // Its key is in no message.
  BackendOptions server{};
  std::string model = {};  // As requests name it.

  // As HttpSend's: 0 is none. The dispatcher watches for output; these watch for bytes,
  // which include the comments that keep a stream alive.
  base::Duration connect_timeout = std::chrono::seconds(5);
  base::Duration first_byte_timeout{0};
  base::Duration idle_timeout{0};
  base::Duration probe_timeout = std::chrono::seconds(5);  // For the answer to each question.
  int max_idle_connections = 64;                           // That are kept for later requests.
};

// Streams every request. What a server answers is taken without trust: texts, lines and lengths are
// bounded, a stream that breaks its format, mixes choices or goes on beyond max_tokens fails its
// own request and no other. The messages of failures are clauses about the backend ("it answered
// with HTTP 500: ..."), have at most 300 bytes, all printable, and hold no key.
//
// Sinks and probes are answered by the thread that runs the io_context, also once the backend is
// destroyed.
class HttpBackend final : public Backend {
 public:
  // `io` must outlive it, and be run by one thread. Nothing is sent yet. kInvalidArgument if the
  // kind is none or the URL cannot be read; kInternal if the TLS library lacks its certificates.
  static StatusOr<std::unique_ptr<HttpBackend>> Open(const HttpBackendOptions& options,
                                                     boost::asio::io_context* io);
  ~HttpBackend() override;
  HttpBackend(const HttpBackend&) = delete;
  HttpBackend& operator=(const HttpBackend&) = delete;

  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override;
  Status Cancel(RequestId id) override;
  // A server that is not ready (HTTP 503) is an answer, not a failure.
  void Probe(ProbeFn done) override;
  bool CanResume() const override;
  std::vector<std::string> Unknown(const Request& request) const override;

  // Connections that are open now, with a request and without.
  int busy_connections() const { return pool_->busy_connections(); }
  int idle_connections() const { return pool_->idle_connections(); }

 private:
  class Answer;
  class Questions;
  struct Shared;  // What answers need, which may come once the backend is destroyed.

  HttpBackend(std::shared_ptr<Shared> shared, std::unique_ptr<net::HttpPool> pool,
              boost::asio::io_context* io);

  // Writes the request and starts its exchange. Throws std::bad_alloc.
  void Send(api::WireRequest written, const std::shared_ptr<Answer>& answer);

  const std::shared_ptr<Shared> shared_;
  boost::asio::io_context* const io_;
  const std::unique_ptr<net::HttpPool> pool_;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_HTTP_BACKEND_H_
