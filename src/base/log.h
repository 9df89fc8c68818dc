// Where the library's log lines go.
#ifndef ROPEWAY_BASE_LOG_H_
#define ROPEWAY_BASE_LOG_H_

#include <spdlog/logger.h>

namespace ropeway {

// The program's default logger, where it set one with a name; else one of our own, "ropeway", to
// stderr: spdlog's built-in default writes to stdout, which belongs to the program's results.
// Thread-safe.
spdlog::logger& Log();

}  // namespace ropeway

#endif  // ROPEWAY_BASE_LOG_H_
