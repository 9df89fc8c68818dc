// The requests under way of an engine or a gateway.
#ifndef ROPEWAY_SERVICE_REGISTRY_H_
#define ROPEWAY_SERVICE_REGISTRY_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failure.h"
#include "base/words.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "service/active_request.h"
#include "service/activity.h"
#include "service/front_desk.h"
#include "service/intake.h"

namespace ropeway::service {

// Gives requests their ids, keeps them until their sinks were told the end, and takes no more once
// it is closed. T is an ActiveRequest.
//
// Thread rule: every method from any thread.
template <typename T>
class Registry {
 public:
  // `owner` is what rejects requests once it is closed: "the engine".
  explicit Registry(std::string owner) : owner_(std::move(owner)) {}

  // Adds the request in state kEncoding with the next free id. It counts as queued from now on.
  // kUnavailable after Close. Throws std::bad_alloc with nothing changed.
  Status Add(const std::shared_ptr<T>& request) {
    const std::lock_guard lock(mu_);
    if (closed_) return Closed();
    requests_.emplace_hint(requests_.end(), next_id_, request);
    request->id = next_id_++;
    request->queued_ = &queued_;
    ++queued_;
    return {};
  }

  // Forgets a request that has ended, or that was not accepted after all. The thread that told its
  // sink the end.
  void Erase(RequestId id) {
    std::shared_ptr<T> request;
    {
      const std::lock_guard lock(mu_);
      if (const auto it = requests_.find(id); it != requests_.end()) request = it->second;
    }
    // Before Drain may return.
    if (request != nullptr && request->told()) KeepEnded(*request);
    const std::lock_guard lock(mu_);
    requests_.erase(id);
    if (requests_.empty()) empty_.notify_all();
  }

  // The last requests that ended.
  const EndedRequests& ended() const { return ended_; }

  // The request of this id; null if there is none, or if its sink was told the end.
  std::shared_ptr<T> Find(RequestId id) const {
    const std::lock_guard lock(mu_);
    const auto it = requests_.find(id);
    return it == requests_.end() || it->second->told() ? nullptr : it->second;
  }

  // The oldest one; null: there is none.
  std::shared_ptr<T> Oldest() const {
    const std::lock_guard lock(mu_);
    return requests_.empty() ? nullptr : requests_.begin()->second;
  }

  // All requests, the oldest first. Waits until there is memory for the list: call it only where
  // the thread may wait for another one that calls this class.
  std::vector<std::shared_ptr<T>> All() const {
    return base::RetryUntilMemory([this] {
      std::vector<std::shared_ptr<T>> all;
      ForEach([&all](const std::shared_ptr<T>& request) { all.push_back(request); });
      return all;
    });
  }

  // Calls `fn` for each one, the oldest first, under the lock: it must neither wait for a thread
  // that calls this class nor for memory, which such a thread may free.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    const std::lock_guard lock(mu_);
    for (const auto& [id, request] : requests_) fn(request);
  }

  // The number of requests that are encoding or waiting.
  int queued() const { return queued_.load(); }

  // Takes no more requests.
  void Close() {
    const std::lock_guard lock(mu_);
    closed_ = true;
  }
  Status CheckOpen() const {
    const std::lock_guard lock(mu_);
    return closed_ ? Closed() : Status();
  }

  // Waits until all requests have ended. After `timeout` it cancels the rest through `cancel_all`,
  // waits a little longer, and returns kDeadlineExceeded.
  Status Drain(std::chrono::nanoseconds timeout, const std::function<void()>& cancel_all) const {
    // A step takes far less.
    constexpr auto kCancelGrace = std::chrono::seconds(10);
    std::unique_lock lock(mu_);
    const auto none = [this] { return requests_.empty(); };
    if (empty_.wait_for(lock, std::min(timeout, kLongestWait), none)) return {};
    const size_t left = requests_.size();
    lock.unlock();
    cancel_all();
    lock.lock();
    empty_.wait_for(lock, kCancelGrace, none);
    return {StatusCode::kDeadlineExceeded,
            base::Counted(left, "request") + " had to be cancelled at the deadline"};
  }

  // For FrontDesk::Requests. `queue`: the ids of those that wait, in the order in which they start.
  std::vector<RequestInfo> Infos(base::TimePoint now, const std::vector<RequestId>& queue) const {
    std::vector<RequestInfo> all;
    ForEach([&](const std::shared_ptr<T>& request) {
      const RequestState state = request->state();
      if (state == RequestState::kEnded) return;
      all.push_back({.id = request->id,
                     .tenant = request->tenant(),
                     .state = state,
                     .age_seconds = base::ToSeconds(now - request->arrival),
                     .priority = request->priority(),
                     .prompt_tokens = request->prompt_tokens.load()});
    });
    SetPositions(queue, &all);
    return all;
  }

  // For FrontDesk::Queue: how many wait and run, of the tenant or of all.
  void CountByClass(const std::string* tenant, QueueInfo* info) const {
    ForEach([&](const std::shared_ptr<T>& request) {
      const RequestState state = request->state();
      if (state == RequestState::kEnded) return;
      if (tenant != nullptr && request->tenant() != *tenant) return;
      QueueInfo::Class& its = info->classes[static_cast<size_t>(request->priority())];
      ++(state == RequestState::kRunning ? its.running : its.waiting);
    });
  }

 private:
  Status Closed() const {
    return {StatusCode::kUnavailable, owner_ + " is stopping and accepts no new requests"};
  }

  void KeepEnded(const T& request) noexcept {
    try {
      ended_.Add(request.ended_as());
    } catch (const std::bad_alloc&) {  // Only what is shown lacks it.
    }
  }

  const std::string owner_;
  EndedRequests ended_;
  std::atomic<int> queued_{0};
  mutable std::mutex mu_;  // Guards all that follows.
  mutable std::condition_variable empty_;
  bool closed_ = false;
  RequestId next_id_ = 1;
  std::map<RequestId, std::shared_ptr<T>> requests_;
};

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_REGISTRY_H_
