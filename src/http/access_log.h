// Writes a line to the log for each request.
#ifndef ROPEWAY_HTTP_ACCESS_LOG_H_
#define ROPEWAY_HTTP_ACCESS_LOG_H_

#include <spdlog/logger.h>

#include <memory>

#include "http/access_record.h"

namespace ropeway::http {

// To where base::Log writes when it is made, at level info. Thread-safe.
class AccessLog {
 public:
  AccessLog();

  // Whether a line would be written at all.
  bool on() const { return logger_->should_log(spdlog::level::info); }
  void Write(const AccessRecord& record) noexcept;

 private:
  const std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_ACCESS_LOG_H_
