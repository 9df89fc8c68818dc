// A queue between a server's log and what reads it.
#ifndef ROPEWAY_BASE_LOG_QUEUE_H_
#define ROPEWAY_BASE_LOG_QUEUE_H_

#include <spdlog/logger.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace spdlog::details {
class thread_pool;
}  // namespace spdlog::details

namespace ropeway::base {

// While it lives, a thread of its own writes what base::Log gets, and what its clones get: where
// the reader is slow or takes nothing, the oldest lines that wait are dropped, and no thread that
// logs waits. Thread rule: made and destroyed while no other thread logs.
class LogQueue {
 public:
  LogQueue();
  ~LogQueue() { End(); }
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  // Lines that were dropped. REQUIRES: End was not called.
  size_t lost() const;

  // Waits until what is queued is written, but not for long: a reader that takes nothing must not
  // keep the program from its end. False: it does, and a write to standard error would wait for it,
  // also those of exit(). Log writes directly again.
  bool End();

 private:
  const std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<spdlog::details::thread_pool> thread_;
};

// Calls `work` on a thread of its own, and waits a second for its end: a reader that takes nothing
// must not hold the caller, whatever becomes of the work. Whether it ended; it must not throw.
bool EndsInTime(std::function<void()> work);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_LOG_QUEUE_H_
