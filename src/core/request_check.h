// Checks of a request that need no look at its prompt's content.
#ifndef ROPEWAY_CORE_REQUEST_CHECK_H_
#define ROPEWAY_CORE_REQUEST_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/sequence.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::core {

inline constexpr size_t kMaxSessionIdBytes = 256;
inline constexpr int kMaxLogprobs = 20;
inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolNameBytes = 64;

// Whether Request::model means the first model, whatever that is called.
inline bool IsDefaultModel(std::string_view name) { return name.empty() || name == "default"; }

// kInvalidArgument with the field at fault, or OK. Takes constant time in the prompt's length.
Status CheckRequest(const Request& request);

// The part of it that is about a chat. What its JSON texts hold is checked when it is rendered.
Status CheckChat(const Chat& chat);

// What a prompt gets that does not fit with what is to follow it, by OpenAI's name for that.
Status ContextLengthExceeded(std::string message, std::string field);

// kInvalidArgument with the field at fault, for a request that can never fit.
Status CheckFits(const CoreRequest& request, int32_t max_model_len);

// The memory that the sender's part of a request takes: its texts, ids and lists.
size_t BytesOf(const Request& request);

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_REQUEST_CHECK_H_
