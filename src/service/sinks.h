// Calls of sinks that are safe.
#ifndef ROPEWAY_SERVICE_SINKS_H_
#define ROPEWAY_SERVICE_SINKS_H_

#include <exception>

#include "base/log.h"
#include "ropeway/request.h"

namespace ropeway::service {

// Calls a sink; false if it threw. Its exceptions are its own bugs and must not affect others.
template <typename Fn>
bool CallSink(RequestId id, Fn&& fn) {
  try {
    fn();
    return true;
  } catch (const std::exception& e) {
    base::TryLog(spdlog::level::warn, "request {}: its sink failed: {}", id, e.what());
  } catch (...) {
    base::TryLog(spdlog::level::warn, "request {}: its sink failed", id);
  }
  return false;
}

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_SINKS_H_
