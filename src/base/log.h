// The logger of the library.
#ifndef ROPEWAY_BASE_LOG_H_
#define ROPEWAY_BASE_LOG_H_

#include <spdlog/logger.h>

#include <utility>

namespace ropeway::base {

// The program's default logger if it has a name; else our own, "ropeway", to stderr: spdlog's
// built-in default writes to stdout, which is for the program's results. Thread-safe.
spdlog::logger& Log();

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
