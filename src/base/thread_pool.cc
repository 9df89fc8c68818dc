#include "base/thread_pool.h"

#include <utility>

namespace ropeway {

ThreadPool::ThreadPool(int threads, size_t capacity) : jobs_(capacity) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
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

}  // namespace ropeway
