// Internal to this room: what a compiler of kernels said, for a message.
#ifndef ROPEWAY_GPU_BUILD_LOG_H_
#define ROPEWAY_GPU_BUILD_LOG_H_

#include <string>
#include <string_view>

namespace ropeway::gpu {

// The end of a sentence: a colon and the log's beginning, without the zero and the ends of lines at
// its end; nothing where the compiler said nothing.
inline std::string BuildLog(std::string log) {
  constexpr size_t kMost = 4000;
  log.resize(log.find_last_not_of(std::string_view("\0\r\n ", 4)) + 1);
  if (log.size() > kMost) log.resize(kMost);
  return log.empty() ? log : ": " + log;
}

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_BUILD_LOG_H_
