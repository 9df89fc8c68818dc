// The gateway as a library: one front for requests to many backends. It queues them by class,
// tenant and deadline, sends each to the backend that suits it, tries again elsewhere what failed,
// and goes on elsewhere with streams whose backend was lost.
//
//   ropeway::GatewayOptions options;
//   options.models.resize(1);
//   options.models[0].backends.push_back({.url = "http://127.0.0.1:8080", .kind = "llamacpp"});
//   auto gateway = ropeway::Gateway::Create(options);
//   if (!gateway.ok()) { ... gateway.status().message() ... }
//   ropeway::Request request;
//   request.prompt = "Once upon a time";
//   request.priority = ropeway::Priority::kHigh;
//   auto handle = (*gateway)->Infer(std::move(request));
//   if (handle.ok()) std::cout << handle->Wait().value().text;
#ifndef ROPEWAY_GATEWAY_H_
#define ROPEWAY_GATEWAY_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ropeway/backend.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/request_handle.h"
#include "ropeway/session.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"

namespace ropeway {

// Whether a gateway can serve.
struct GatewayHealth {
  bool ready = true;   // New requests are accepted, and the first model has a backend that is up.
  std::string reason;  // Why not, for a person.
  std::vector<BackendStatus> backends;
};

// A running gateway. Thread-safe.
class Gateway {
 public:
  // Initializes the gateway: starts its threads and looks at the backends, which need not be up. On
  // failure, one sentence names the option at fault.
  static StatusOr<std::unique_ptr<Gateway>> Create(const GatewayOptions& options);

  // As Shutdown without a grace.
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Queues `request`, in the class `request.priority`, and returns in far under 1 ms. The handle
  // waits for the result, polls it or cancels; with `on_delta` the output is streamed as well.
  // Fails for a malformed request (kInvalidArgument), an unknown model (kNotFound), too long a
  // queue (kResourceExhausted), and where no backend is up (kUnavailable). The last two tell the
  // seconds after which to try again. All other errors are in the Result, and name the backend and
  // what it said.
  //
  // Until something of its output was given out, a request that fails is sent again, elsewhere if
  // possible. After that it goes on only where another backend computes the very same bits
  // (Backend::CanResume); else it fails.
  //
  // With Request::session_id the request is the next turn of that session of its tenant, as of an
  // engine (Engine::Submit). The gateway keeps the session, as text: its messages, or its text. The
  // prompt holds what is new, messages or text, and a backend gets the whole history, whichever it
  // is; Finish::session_tokens is what backends counted. Rejected as there, and besides a prompt of
  // token ids, and a session that an engine began (kInvalidArgument).
  StatusOr<RequestHandle> Infer(Request request, StreamCallback on_delta = nullptr);

  // Asks that the request end as kCancelled; kNotFound if no such request is under way.
  Status Cancel(RequestId id);

  // A tenant's sessions that have a completed turn, the least recently used first.
  std::vector<SessionInfo> Sessions(const std::string& tenant = "") const;

  // Deletes a session, and returns when that is stored: it may wait for the device. A turn under
  // way goes on, but is not kept; one whose history is not read yet may fail with kNotFound.
  // kNotFound: the tenant has no such session.
  Status CloseSession(const std::string& id, const std::string& tenant = "");

  GatewayHealth Health() const;

  // Its batching part, and how many requests wait and run.
  EngineStats Stats() const;

  // All metrics in the Prometheus text format.
  std::string MetricsText() const;

  // The backend gets no more requests, for an upgrade for example, or may have some again. What it
  // has under way goes on elsewhere, where that is possible, or ends there. kNotFound: no backend
  // has the name.
  Status SetDraining(const std::string& backend, bool draining);

  // Rejects new requests from now on, and waits until all accepted ones ended or `grace` is over;
  // those still under way then are cancelled: kDeadlineExceeded.
  Status Shutdown(std::chrono::nanoseconds grace);

 private:
  class Impl;
  explicit Gateway(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ropeway

#endif  // ROPEWAY_GATEWAY_H_
