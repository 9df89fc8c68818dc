// Checks of a request that need no look at its prompt's content.
#ifndef ROPEWAY_ENGINE_REQUEST_CHECK_H_
#define ROPEWAY_ENGINE_REQUEST_CHECK_H_

#include <cstddef>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::engine {

inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 1024;
inline constexpr size_t kMaxStopTokenIds = 128;
inline constexpr size_t kMaxLogitBiases = 1024;
inline constexpr size_t kMaxSessionIdBytes = 256;
inline constexpr int kMaxLogprobs = 20;

// kInvalidArgument with the field at fault, or OK. Takes constant time in the prompt's length.
Status CheckRequest(const Request& request);

// The memory that the sender's part of a request takes: its texts, ids and lists.
size_t BytesOf(const Request& request);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_REQUEST_CHECK_H_
