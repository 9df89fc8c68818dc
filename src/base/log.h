// The logger of the library.
#ifndef ROPEWAY_BASE_LOG_H_
#define ROPEWAY_BASE_LOG_H_

#include <spdlog/logger.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"

namespace spdlog::details {
class thread_pool;
}  // namespace spdlog::details

namespace ropeway::base {

// The program's default logger if it has a name; else our own, "ropeway", to stderr: spdlog's
// built-in default writes to stdout, which is for the program's results. Thread-safe.
spdlog::logger& Log();

// The logger of lines whose text is, in JSON, members of the line's object: "\"status\":200".
inline constexpr char kMembersLogger[] = "access";

// With `json`, Log writes each line as one JSON object with time, level and message, whatever the
// message holds, and base::Fail writes its sentence so too. Call before other threads log.
void SetLogFormat(bool json);
bool LogsAsJson();

// Lets one of a kind of lines through in each `period`, with the number of those since the last
// one. Thread rule: one thread at a time.
class RepeatedLine {
 public:
  explicit RepeatedLine(Duration period) : period_(period) {}

  // Counts one more line. Returns how many lines there are to write about now; 0: none.
  int64_t Count(TimePoint now) {
    ++count_;
    if (written_ && now - written_at_ < period_) return 0;
    written_ = true;
    written_at_ = now;
    return std::exchange(count_, 0);
  }

 private:
  const Duration period_;
  int64_t count_ = 0;
  bool written_ = false;
  TimePoint written_at_{};
};

// Logs without ever throwing, for threads that must go on: spdlog's own error handler throws
// without memory. Thread-safe.
template <typename... Args>
void TryLog(spdlog::level::level_enum level, spdlog::format_string_t<Args...> format,
            Args&&... args) noexcept {
  try {
    Log().log(level, format, std::forward<Args>(args)...);
  } catch (...) {  // The line is lost.
  }
}

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

  // Waits until the queue is written, but not for long: a reader that takes nothing must not keep
  // the program from its end. Returns false if there is such a reader: every write to standard
  // error would wait for it, also in exit(). Log writes directly again.
  bool End();

 private:
  const std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<spdlog::details::thread_pool> thread_;
};

// Calls `work` on a thread of its own, and waits a second for its end: a reader that takes nothing
// must not hold the caller, whatever becomes of the work. Whether it ended; it must not throw.
bool EndsInTime(std::function<void()> work);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_LOG_H_
