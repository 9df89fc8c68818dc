#include "engine/failure.h"

#include <exception>
#include <new>
#include <string>

#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

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
