// What a RequestHandle points to: shared by its copies and by whoever collects the result.
#ifndef ROPEWAY_CORE_REQUEST_HANDLE_H_
#define ROPEWAY_CORE_REQUEST_HANDLE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "ropeway/request.h"
#include "ropeway/request_handle.h"

namespace ropeway {

// How handles reach what they came from, until that ends. Thread-safe.
class CancelLink {
 public:
  using CancelFn = std::function<void(RequestId)>;

  explicit CancelLink(CancelFn cancel) : cancel_(std::move(cancel)) {}

  // Without effect after Cut. What is called may call this again.
  void Cancel(RequestId id) {
    {
      const std::lock_guard lock(mu_);
      if (cut_) return;
      ++running_;
    }
    const Running running(this);
    cancel_(id);
  }

  // Waits for each Cancel that runs: what they call may be destroyed then.
  void Cut() {
    std::unique_lock lock(mu_);
    cut_ = true;
    idle_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  struct Running {  // Ended by an exception too.
    explicit Running(CancelLink* its) : link(its) {}
    ~Running() {
      const std::lock_guard lock(link->mu_);
      if (--link->running_ == 0) link->idle_.notify_all();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    CancelLink* const link;
  };

  const CancelFn cancel_;
  std::mutex mu_;
  std::condition_variable idle_;
  int running_ = 0;  // Guarded by mu_, as is the next.
  bool cut_ = false;
};

struct RequestHandle::State {
  std::shared_ptr<CancelLink> link;  // Set before it is shared.
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

#endif  // ROPEWAY_CORE_REQUEST_HANDLE_H_
