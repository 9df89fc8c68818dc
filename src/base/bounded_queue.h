// Queues between threads.
#ifndef ROPEWAY_BASE_BOUNDED_QUEUE_H_
#define ROPEWAY_BASE_BOUNDED_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace ropeway::base {

// First in, first out. Only pushes allocate; without memory they throw std::bad_alloc with the item
// and the queue unchanged. Thread rule: every method from any thread.
template <typename T>
class BoundedQueue {
 public:
  // REQUIRES: capacity >= 1.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // False, with `item` unchanged, if the queue is full or closed.
  bool TryPush(T&& item) {
    {
      const std::lock_guard lock(mu_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Waits while the queue is full. False, with `item` unchanged, if it is closed.
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

  // Pushes beyond the capacity too, for items whose number is bounded otherwise, from threads that
  // must not wait. False, with `item` unchanged, if the queue is closed.
  bool ForcePush(T&& item) {
    {
      const std::lock_guard lock(mu_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Takes all items, without waiting.
  std::list<T> PopAll() {
    std::unique_lock lock(mu_);
    return TakeAll(&lock);
  }

  // Waits for an item, Close, Wake or the timeout, which may be 0, then takes all items.
  std::list<T> WaitPopAll(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) {
    std::unique_lock lock(mu_);
    const auto ready = [this] { return closed_ || woken_ || !items_.empty(); };
    if (!timeout) {
      not_empty_.wait(lock, ready);
    } else if (*timeout > std::chrono::nanoseconds(0)) {
      not_empty_.wait_for(lock, *timeout, ready);
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

  // Ends the current wait of WaitPopAll or WaitForWork, or else the next one.
  void Wake() {
    {
      const std::lock_guard lock(mu_);
      woken_ = true;
    }
    not_empty_.notify_all();
  }

  // From now on every push fails; queued items can still be popped. Wakes all waiting threads.
  void Close() {
    {
      const std::lock_guard lock(mu_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  bool closed() const { return closed_; }

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
  std::atomic<bool> closed_{false};  // Written under the lock.
  bool woken_ = false;
};

// The items of each tenant in their order; a turn is one item. A tenant's first item waits for at
// most one of each other tenant's, however many these have. Thread rule: one thread at a time.
template <typename T>
class TurnQueue {
 public:
  // Takes the items of `items`, behind the tenant's others. Throws std::bad_alloc, with nothing
  // taken.
  void Push(const std::string& tenant, std::list<T>* items) {
    std::list<T>& own = tenants_.try_emplace(tenant).first->second;
    own.splice(own.end(), *items);
  }

  // One item. REQUIRES: not empty.
  std::list<T> Pop() {
    if (next_ == tenants_.end()) next_ = tenants_.begin();
    std::list<T> item;
    item.splice(item.end(), next_->second, next_->second.begin());
    const auto served = next_++;
    if (served->second.empty()) tenants_.erase(served);
    return item;
  }

  bool empty() const { return tenants_.empty(); }

 private:
  std::map<std::string, std::list<T>>
      tenants_;  // With items; turns go round in order of the names.
  typename std::map<std::string, std::list<T>>::iterator next_ = tenants_.end();
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_BOUNDED_QUEUE_H_
