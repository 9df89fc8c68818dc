#include "engine/failure.h"

#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

Status CurrentFailure(const char* doing) noexcept {
  try {
    throw;
  } catch (const tokenizer::EncodingError& e) {
    return MakeStatus(StatusCode::kInvalidArgument, e.what(), "prompt");
  } catch (...) {
    return base::CurrentFailure(doing);
  }
}

}  // namespace ropeway::engine
