#include "engine/failure.h"

#include <exception>
#include <string>

#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

Status OutOfMemory() noexcept { return {StatusCode::kResourceExhausted, "out of memory"}; }

Status MakeStatus(StatusCode code, const char* message, const char* field) noexcept {
  try {
    return {code, message, field};
  } catch (const std::bad_alloc&) {
    return {code, "out of memory"};
  }
}

Status RequestTimeout() noexcept {
  return MakeStatus(StatusCode::kDeadlineExceeded, "the request did not end within its timeout",
                    "timeout");
}

Status RequestCancelled() noexcept {
  return MakeStatus(StatusCode::kCancelled, "the request was cancelled");
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
    } catch (const std::bad_alloc&) {
      return OutOfMemory();
    } catch (const tokenizer::EncodingError& e) {
      return {StatusCode::kInvalidArgument, e.what(), "prompt"};
    } catch (const std::exception& e) {
      return {StatusCode::kInternal, std::string(doing) + " failed: " + e.what()};
    } catch (...) {
      return {StatusCode::kInternal, std::string(doing) + " failed"};
    }
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace ropeway::engine
