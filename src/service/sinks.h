// Calls of sinks that are safe.
#ifndef ROPEWAY_SERVICE_SINKS_H_
#define ROPEWAY_SERVICE_SINKS_H_

#include <exception>
#include <utility>
#include <vector>

#include "base/chat_size.h"
#include "base/json.h"
#include "base/log.h"
#include "base/tool_calls.h"
#include "ropeway/request.h"

namespace ropeway::service {

// Makes calls such as a template takes again: arguments that are no JSON object become "{}". Models
// err, and limits cut calls. A client can mend those in a history of its own, but not a session's,
// in which they would fail every later turn. Such a call stays a call, so that a tool may answer
// it.
inline void MendCalls(std::vector<ToolCall>* calls) {
  for (ToolCall& call : *calls) {
    if (!base::IsJsonObject(call.arguments, base::kChatJsonBounds)) call.arguments = "{}";
  }
}
// Adds an answer to the message that it goes on with.
inline void ContinueMessage(const ChatMessage& answer, ChatMessage* message) {
  message->content += answer.content;
  message->part_sizes.clear();
  message->reasoning_content += answer.reasoning_content;
  message->tool_calls.insert(message->tool_calls.end(), answer.tool_calls.begin(),
                             answer.tool_calls.end());
}
// Adds what a delta says to the answer so far.
inline void AddTo(const Delta& delta, ChatMessage* answer) {
  answer->content += delta.text;
  answer->reasoning_content += delta.reasoning;
  base::AddCalls(delta.tool_calls, &answer->tool_calls);
}

// Adds an answer to the messages that a session keeps. `continues`: it goes on with the last one.
inline void KeepAnswer(ChatMessage answer, bool continues, std::vector<ChatMessage>* messages) {
  MendCalls(&answer.tool_calls);
  if (continues) {
    ContinueMessage(answer, &messages->back());
  } else {
    messages->push_back(std::move(answer));
  }
}

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
