// A bounded queue from many producers to one or more consumers.
#ifndef ROPEWAY_BASE_BOUNDED_QUEUE_H_
#define ROPEWAY_BASE_BOUNDED_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

namespace ropeway {

// First in, first out. Only a push takes memory: where there is none it throws std::bad_alloc, the
// item and the queue are as before, and it may be tried again. Thread rule: every method from any
// thread.
template <typename T>
class BoundedQueue {
 public:
  // REQUIRES: capacity >= 1.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // False, and `item` stays, where the queue is full or closed.
  bool TryPush(T&& item) {
    {
      const std::lock_guard lock(mu_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Waits while the queue is full. False, and `item` stays, where it is closed.
  bool WaitPush(T&& item) {
    {
      std::unique_lock lock(mu_);
      not_full_.wait(lock, [this] { return closed_ || items_.size() < capacity_; });
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Pushes beyond the capacity too: for items whose number something else bounds, from threads that
  // must not wait. False, and `item` stays, where the queue is closed.
  bool ForcePush(T&& item) {
    {
      const std::lock_guard lock(mu_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // All items; none where the queue is empty. Never waits.
  std::list<T> PopAll() {
    std::unique_lock lock(mu_);
    return TakeAll(&lock);
  }

  // Waits until there is an item, the queue is closed, somebody calls Wake or `timeout` is over;
  // then as PopAll.
  std::list<T> WaitPopAll(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) {
    std::unique_lock lock(mu_);
    const auto ready = [this] { return closed_ || woken_ || !items_.empty(); };
    if (timeout) {
      not_empty_.wait_for(lock, *timeout, ready);
    } else {
      not_empty_.wait(lock, ready);
    }
    woken_ = false;
    return TakeAll(&lock);
  }

  // As WaitPopAll, but takes nothing.
  void WaitForWork(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mu_);
    not_empty_.wait_for(lock, timeout, [this] { return closed_ || woken_ || !items_.empty(); });
    woken_ = false;
  }

  // Ends the wait of WaitPopAll or WaitForWork that is under way, or else the next one.
  void Wake() {
    {
      const std::lock_guard lock(mu_);
      woken_ = true;
    }
    not_empty_.notify_all();
  }

  // The next item, waiting for it; nullopt once the queue is closed and empty.
  std::optional<T> WaitPop() {
    std::unique_lock lock(mu_);
    not_empty_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    not_full_.notify_one();
    return item;
  }

  // From now on every push fails; what is queued can still be popped. Wakes all who wait.
  void Close() {
    {
      const std::lock_guard lock(mu_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  bool closed() const {
    const std::lock_guard lock(mu_);
    return closed_;
  }

  size_t size() const {
    const std::lock_guard lock(mu_);
    return items_.size();
  }

 private:
  std::list<T> TakeAll(std::unique_lock<std::mutex>* lock) {
    std::list<T> items;
    items.swap(items_);
    lock->unlock();
    not_full_.notify_all();
    return items;
  }

  const size_t capacity_;
  mutable std::mutex mu_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::list<T> items_;
  bool closed_ = false;
  bool woken_ = false;
};

}  // namespace ropeway

#endif  // ROPEWAY_BASE_BOUNDED_QUEUE_H_
