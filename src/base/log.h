// Where the library's log lines go.
#ifndef ROPEWAY_BASE_LOG_H_
#define ROPEWAY_BASE_LOG_H_

#include <spdlog/logger.h>

#include <utility>

namespace ropeway {

// The program's default logger, where it set one with a name; else one of our own, "ropeway", to
// stderr: spdlog's built-in default writes to stdout, which belongs to the program's results.
// Thread-safe.
spdlog::logger& Log();

// Logs, or does not where that fails: spdlog's own handler of errors throws where memory is short.
// For threads that must go on then. Thread-safe.
template <typename... Args>
void TryLog(spdlog::level::level_enum level, spdlog::format_string_t<Args...> format,
            Args&&... args) noexcept {
  try {
    Log().log(level, format, std::forward<Args>(args)...);
  } catch (...) {  // The line is lost; what it told of is not.
  }
}

}  // namespace ropeway

#endif  // ROPEWAY_BASE_LOG_H_
