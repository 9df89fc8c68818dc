// What Engine::Submit and Gateway::Infer return: a handle to wait for a result, poll it or cancel.
#ifndef ROPEWAY_REQUEST_HANDLE_H_
#define ROPEWAY_REQUEST_HANDLE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {
namespace service {
class RequestHandles;
}

// Refers to one submitted request. Cheap to copy. Dropping a handle neither cancels nor ends the
// request. A handle may outlive the Engine or Gateway that it came from, with which its request
// ends: Wait and Poll then give the result, and Cancel has no effect. Thread-safe.
class RequestHandle {
 public:
  RequestHandle() = default;

  RequestId id() const { return id_; }

  // Blocks until the request ended, or `timeout` is over (kDeadlineExceeded; the request goes on).
  // May be called any number of times, also after the end; the result is kept until the last handle
  // of this request is destroyed.
  StatusOr<Result> Wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) const;

  // The result if the request ended, else nullopt. Never blocks.
  std::optional<Result> Poll() const;

  // Asks that the request end as kCancelled. Returns at once; without effect after the end.
  void Cancel() const;

 private:
  friend class service::RequestHandles;
  struct State;
  std::shared_ptr<State> state_;
  RequestId id_ = 0;
};

// Called for each delta of a request, in order, on a thread of the engine's or gateway's; return
// false to cancel. Must not block and must not call back into Wait.
using StreamCallback = std::function<bool(RequestId, const Delta&)>;

}  // namespace ropeway

#endif  // ROPEWAY_REQUEST_HANDLE_H_
