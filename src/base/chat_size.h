// How much text a chat holds: what its limits, estimates and bounds of memory count.
#ifndef ROPEWAY_BASE_CHAT_SIZE_H_
#define ROPEWAY_BASE_CHAT_SIZE_H_

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "ropeway/request.h"

namespace ropeway::base {

// How many calls of tools one answer has at most, and how long their names and ids are: a gateway
// takes no more from its servers, and an engine's further ones are text.
inline constexpr size_t kMostCalls = 128;
inline constexpr size_t kMostCallNameBytes = 256;

// Bounds on each JSON text of a chat: the arguments of a call, a tool's schema, the variables of
// its template. As in Python the last of equal keys counts.
inline constexpr JsonBounds kChatJsonBounds = {
    .max_depth = 64, .max_values = 200'000, .repeated_keys = true};

// Bytes of all texts.
inline size_t TextBytes(const ToolCall& call) {
  return call.id.size() + call.name.size() + call.arguments.size();
}
inline size_t TextBytes(const ChatMessage& message) {
  size_t bytes = message.role.size() + message.content.size() + message.name.size() +
                 message.tool_call_id.size() + message.reasoning_content.size();
  for (const ToolCall& call : message.tool_calls) bytes += TextBytes(call);
  return bytes;
}
inline size_t TextBytes(const ToolCallDelta& call) {
  return call.id.size() + call.name.size() + call.arguments.size();
}
// Of all that the model says; not of its tokens, which have the same texts again.
inline size_t TextBytes(const Delta& delta) {
  size_t bytes = delta.text.size() + delta.reasoning.size();
  for (const ToolCallDelta& call : delta.tool_calls) bytes += TextBytes(call);
  return bytes;
}
// What the chat says beside its messages.
inline size_t OtherTextBytes(const Chat& chat) {
  size_t bytes = chat.template_arguments.size() + chat.tool_name.size();
  for (const Tool& tool : chat.tools) {
    bytes += tool.name.size() + tool.description.size() + tool.parameters.size();
  }
  return bytes;
}

// The memory that it takes, without what allocators add.
inline size_t MemoryBytes(const Chat& chat) {
  size_t bytes = sizeof(Chat) + OtherTextBytes(chat) + chat.tools.size() * sizeof(Tool);
  for (const ChatMessage& message : chat.messages) {
    bytes += sizeof(ChatMessage) + TextBytes(message) +
             message.tool_calls.size() * sizeof(ToolCall) +
             message.part_sizes.size() * sizeof(size_t);
  }
  return bytes;
}

// About the tokens of a prompt that no tokenizer has seen.
inline size_t EstimatedTokens(const decltype(Request::prompt)& prompt) {
  constexpr size_t kBytesPerToken = 4;
  constexpr size_t kTokensPerMessage = 4;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return ids->size();
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    return (text->size() + kBytesPerToken - 1) / kBytesPerToken;
  }
  const Chat& chat = std::get<Chat>(prompt);
  size_t tokens = OtherTextBytes(chat) / kBytesPerToken;
  for (const ChatMessage& message : chat.messages) {
    tokens += TextBytes(message) / kBytesPerToken + kTokensPerMessage;
  }
  return tokens;
}

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_CHAT_SIZE_H_
