// What an exception means for the request that it was thrown for, without throwing itself.
#ifndef ROPEWAY_ENGINE_FAILURE_H_
#define ROPEWAY_ENGINE_FAILURE_H_

#include "base/failure.h"
#include "ropeway/status.h"

namespace ropeway::engine {

using base::CopyStatus;
using base::MakeStatus;
using base::OutOfMemory;
using base::RequestCancelled;
using base::RequestTimeout;
using base::RetryUntilMemory;

// As base::CurrentFailure, but a text that cannot be encoded is its request's fault.
Status CurrentFailure(const char* doing) noexcept;

// For a request to an encoder that asks for anything but an embedding.
inline Status EmbedsOnly(const std::string& model) {
  return InvalidArgument("The model '" + model + "' makes embeddings only.", "model");
}

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_FAILURE_H_
