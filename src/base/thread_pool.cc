#include "base/thread_pool.h"

#include <pthread.h>

#include <utility>

namespace ropeway::base {

ThreadPool::ThreadPool(int threads, size_t capacity, const char* name) : jobs_(capacity) {
  try {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { Loop(); });
      pthread_setname_np(threads_.back().native_handle(), name);
    }
  } catch (...) {
    Stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

bool ThreadPool::TryAdd(std::function<void()> job) { return jobs_.TryPush(std::move(job)); }

void ThreadPool::Stop() {
  jobs_.Close();
  jobs_.PopAll();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::Loop() {
  while (auto job = jobs_.WaitPop()) (*job)();
}

}  // namespace ropeway::base
