// A few threads that run jobs from one bounded queue.
#ifndef ROPEWAY_BASE_THREAD_POOL_H_
#define ROPEWAY_BASE_THREAD_POOL_H_

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"

namespace ropeway::base {

// Jobs begin in the order in which they were added. Thread rule: TryAdd from any thread; Stop and
// the destructor from one, which is none of the pool's.
class ThreadPool {
 public:
  // `name`: of its threads, as tools like top show them; at most 15 bytes.
  // REQUIRES: threads >= 1, capacity >= 1. Throws std::system_error where the system gives no more
  // threads.
  ThreadPool(int threads, size_t capacity, const char* name = "ropeway-pool");
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Queues `job`, which must not throw. False where `capacity` jobs wait already, or after Stop.
  // Throws std::bad_alloc, with nothing queued.
  bool TryAdd(std::function<void()> job);

  // Waits for the jobs that run, destroys those that wait unrun, and joins the threads.
  void Stop();

 private:
  void Loop();

  BoundedQueue<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_THREAD_POOL_H_
