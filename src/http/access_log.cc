#include "http/access_log.h"

#include "base/log.h"

namespace ropeway::http {

AccessLog::AccessLog() : logger_(base::Log().clone(base::kMembersLogger)) {}

void AccessLog::Write(const AccessRecord& record) noexcept {
  try {
    if (on()) logger_->info(base::LogsAsJson() ? AccessJson(record) : AccessText(record));
  } catch (...) {  // The line is lost.
  }
}

}  // namespace ropeway::http
