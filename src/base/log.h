// The logger of the library.
#ifndef ROPEWAY_BASE_LOG_H_
#define ROPEWAY_BASE_LOG_H_

#include <spdlog/logger.h>

#include <cstdint>
#include <utility>

#include "base/clock.h"

namespace ropeway::base {

// The program's default logger if it has a name; else our own, "ropeway", to stderr: spdlog's
// built-in default writes to stdout, which is for the program's results. Thread-safe.
spdlog::logger& Log();

// The logger of lines whose text is, in JSON, members of the line's object: "\"status\":200".
inline constexpr char kMembersLogger[] = "access";

// With `json` Log writes each line as one JSON object with time, level and message, whatever the
// message holds, and base::Fail its sentence likewise. Call before other threads log.
void SetLogFormat(bool json);
bool LogsAsJson();

// Lets one of a kind of lines through in each `period`, with the number of those since the last
// one. Thread rule: one thread at a time.
class RepeatedLine {
 public:
  explicit RepeatedLine(Duration period) : period_(period) {}

  // One more of them. Returns how many there are to write about now; 0: none.
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

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_LOG_H_
