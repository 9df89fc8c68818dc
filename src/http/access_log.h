// Writes a line to the log for each request.
#ifndef ROPEWAY_HTTP_ACCESS_LOG_H_
#define ROPEWAY_HTTP_ACCESS_LOG_H_

#include <spdlog/async_logger.h>

#include <memory>

#include "http/access_record.h"

namespace spdlog::details {
class thread_pool;
}  // namespace spdlog::details

namespace ropeway::http {

// To where base::Log writes, at level info, on a thread of its own: where standard error is slow,
// the oldest lines that wait are dropped, and no I/O thread waits. Thread-safe.
class AccessLog {
 public:
  AccessLog();
  // Writes what waits; says how many lines were dropped.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Whether a line would be written at all.
  bool on() const { return logger_->should_log(spdlog::level::info); }
  void Write(const AccessRecord& record) noexcept;

 private:
  std::shared_ptr<spdlog::details::thread_pool> thread_;
  const std::shared_ptr<spdlog::async_logger> logger_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_ACCESS_LOG_H_
