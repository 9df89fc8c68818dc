// A few threads for what would hold up an I/O thread.
#ifndef ROPEWAY_SERVER_HELPER_POOL_H_
#define ROPEWAY_SERVER_HELPER_POOL_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "ropeway/status.h"

namespace ropeway {

// Thread rule: Run from coroutines on any thread; the destructor when none of them is left waiting.
class HelperPool {
 public:
  // At most `max_jobs` run or wait. REQUIRES: threads >= 1.
  HelperPool(int threads, int max_jobs)
      : max_jobs_(max_jobs), threads_(static_cast<size_t>(threads)) {}
  // Waits for what runs.
  ~HelperPool() { threads_.join(); }
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  // Runs `work` on a thread of the pool and resumes on the caller's executor with what it returned.
  // kResourceExhausted where the pool is full; what `work` throws becomes a Status (FromException).
  template <typename T>
  boost::asio::awaitable<StatusOr<T>> Run(std::function<StatusOr<T>()> work) {
    const Place place(&jobs_, max_jobs_);
    if (!place.taken()) {
      co_return Status(StatusCode::kResourceExhausted,
                       "The server has too many large requests to read or to tokenize.");
    }
    std::optional<StatusOr<T>> result;
    boost::asio::awaitable<void> job = Execute<T>(&work, &result);
    co_await boost::asio::co_spawn(threads_.get_executor(), std::move(job),
                                   boost::asio::use_awaitable);
    co_return *std::move(result);
  }

  // What to tell a client of an exception in its request: kUnavailable for memory that is not to be
  // had, else kInternal. Logs it. REQUIRES: called from a catch block.
  static Status FromException();

 private:
  class Place {
   public:
    Place(std::atomic<int>* jobs, int max) : jobs_(jobs), taken_(++*jobs <= max) {}
    ~Place() { --*jobs_; }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    bool taken() const { return taken_; }

   private:
    std::atomic<int>* const jobs_;
    const bool taken_;
  };

  template <typename T>
  static boost::asio::awaitable<void> Execute(const std::function<StatusOr<T>()>* work,
                                              std::optional<StatusOr<T>>* result) {
    try {
      *result = (*work)();
    } catch (...) {
      *result = FromException();
    }
    co_return;
  }

  const int max_jobs_;
  std::atomic<int> jobs_{0};
  boost::asio::thread_pool threads_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_HELPER_POOL_H_
