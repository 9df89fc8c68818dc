// Requests whose results are collected for handles: what Engine and Gateway give their users.
#ifndef ROPEWAY_SERVICE_REQUEST_HANDLE_H_
#define ROPEWAY_SERVICE_REQUEST_HANDLE_H_

#include <functional>
#include <memory>

#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/request_handle.h"
#include "ropeway/status.h"

namespace ropeway::service {

class CancelLink;

// Submits requests to one backend. Its handles reach the backend until this is destroyed: do that
// before the backend is. Thread-safe.
class RequestHandles {
 public:
  // Called once, with the whole result, before the handle has it; must not throw.
  using EndedFn = std::function<void(const std::shared_ptr<const Result>&)>;

  explicit RequestHandles(Backend* backend);
  // Waits for each RequestHandle::Cancel that runs.
  ~RequestHandles();
  RequestHandles(const RequestHandles&) = delete;
  RequestHandles& operator=(const RequestHandles&) = delete;

  // See Engine::Submit. `ended` may be empty.
  StatusOr<RequestHandle> Submit(Request request, StreamCallback on_delta, EndedFn ended = {});

 private:
  class Collector;

  Backend* const backend_;
  const std::shared_ptr<CancelLink> link_;
};

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_REQUEST_HANDLE_H_
