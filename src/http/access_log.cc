#include "http/access_log.h"

#include <pthread.h>
#include <spdlog/async.h>

#include "base/log.h"

namespace ropeway::http {
namespace {

constexpr size_t kLinesThatWait = 8192;

std::shared_ptr<spdlog::async_logger> MakeLogger(
    const std::shared_ptr<spdlog::details::thread_pool>& thread) {
  const spdlog::logger& log = base::Log();
  auto logger = std::make_shared<spdlog::async_logger>(
      base::kMembersLogger, log.sinks().begin(), log.sinks().end(), thread,
      spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(log.level());
  return logger;
}

}  // namespace

AccessLog::AccessLog()
    : thread_(std::make_shared<spdlog::details::thread_pool>(
          kLinesThatWait, 1, [] { pthread_setname_np(pthread_self(), "ropeway-access"); })),
      logger_(MakeLogger(thread_)) {}

AccessLog::~AccessLog() {
  const size_t dropped = thread_->overrun_counter();
  thread_.reset();  // Joins it.
  if (dropped > 0) base::TryLog(spdlog::level::warn, "{} lines about requests were lost", dropped);
}

void AccessLog::Write(const AccessRecord& record) noexcept {
  try {
    if (on()) logger_->info(base::LogsAsJson() ? AccessJson(record) : AccessText(record));
  } catch (...) {  // The line is lost.
  }
}

}  // namespace ropeway::http
