#include "base/failure.h"

#include <exception>
#include <string>

namespace ropeway::base {

Status OutOfMemory() noexcept { return {StatusCode::kResourceExhausted, "out of memory"}; }

Status MakeStatus(StatusCode code, const char* message, const char* field) noexcept {
  try {
    return {code, message, field};
  } catch (const std::bad_alloc&) {
    return {code, "out of memory"};
  }
}

Status CopyStatus(const Status& status) noexcept {
  try {
    return status;
  } catch (const std::bad_alloc&) {
    return {status.code(), "out of memory"};
  }
}

Status CurrentFailure(const char* doing) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {  // As below.
    } catch (const std::exception& e) {
      return {StatusCode::kInternal, std::string(doing) + " failed: " + e.what()};
    } catch (...) {
      return {StatusCode::kInternal, std::string(doing) + " failed"};
    }
  } catch (const std::bad_alloc&) {  // There is no memory to say more.
  }
  return OutOfMemory();
}

Status RequestTimeout() noexcept {
  return MakeStatus(StatusCode::kDeadlineExceeded, "the request did not end within its timeout",
                    "timeout");
}

Status RequestCancelled() noexcept {
  return MakeStatus(StatusCode::kCancelled, "the request was cancelled");
}

Status StatusOfEnd(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      return {};
    case FinishReason::kCancelled:
      return RequestCancelled();
    case FinishReason::kFailed:
      break;
  }
  return MakeStatus(StatusCode::kInternal, "the request failed");
}

}  // namespace ropeway::base
