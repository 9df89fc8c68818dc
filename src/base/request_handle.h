// What a RequestHandle points to: shared by its copies and by whoever collects the result.
#ifndef ROPEWAY_BASE_REQUEST_HANDLE_H_
#define ROPEWAY_BASE_REQUEST_HANDLE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "ropeway/request.h"
#include "ropeway/request_handle.h"

namespace ropeway {

struct RequestHandle::State {
  std::function<void(RequestId)> cancel;  // Set before it is shared.
  std::mutex mu;
  std::condition_variable ended;
  std::shared_ptr<const Result> result;  // Guarded by mu; null until the end.

  void End(std::shared_ptr<const Result> value) {
    {
      const std::lock_guard lock(mu);
      result = std::move(value);
    }
    ended.notify_all();
  }
};

}  // namespace ropeway

#endif  // ROPEWAY_BASE_REQUEST_HANDLE_H_
