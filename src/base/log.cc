#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace ropeway::base {

spdlog::logger& Log() {
  spdlog::logger* const set = spdlog::default_logger_raw();
  if (set != nullptr && !set->name().empty()) return *set;
  static const std::shared_ptr<spdlog::logger> own = [] {
    constexpr const char* kName = "ropeway";
    std::shared_ptr<spdlog::logger> found = spdlog::get(kName);
    return found != nullptr ? found : spdlog::stderr_color_mt(kName);
  }();
  return *own;
}

}  // namespace ropeway::base
