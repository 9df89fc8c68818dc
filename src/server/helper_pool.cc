#include "server/helper_pool.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <new>

namespace ropeway {

Status HelperPool::FromException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    spdlog::error("No memory for a request");
    return {StatusCode::kUnavailable, "The server has too little memory left for this request."};
  } catch (const std::exception& e) {
    spdlog::error("A request failed: {}", e.what());
  } catch (...) {
    spdlog::error("A request failed");
  }
  return {StatusCode::kInternal, "The server failed to handle the request."};
}

}  // namespace ropeway
