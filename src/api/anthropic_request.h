// The body of POST /v1/messages, and of POST /v1/messages/count_tokens.
#ifndef ROPEWAY_API_ANTHROPIC_REQUEST_H_
#define ROPEWAY_API_ANTHROPIC_REQUEST_H_

#include <string_view>

#include "api/api_format.h"
#include "api/fields.h"
#include "api/openai_format.h"
#include "ropeway/status.h"

namespace ropeway::api::anthropic {

struct Body : OpenAiBody {
  Body() { tool_form = ToolForm::kFlat; }

  ChatMessage system;           // Its content is empty: there is none.
  bool omits_thoughts = false;  // The answer says that there were some, not which.
  // The prompt is to be in the cache, and nothing is to be said: max_tokens was 0.
  bool only_caches = false;
};

// All bodies that the readers of this table are given are AnthropicBodies.
const FieldTable<OpenAiBody>& Fields();

// Reads a body; one whose tokens are only counted needs no max_tokens.
Status ReadBody(std::string_view text, const BodyLimits& limits, bool counts, Body* body);

// An error of a chat, with its fields as this dialect calls them.
ApiError InAnthropic(ApiError error);

}  // namespace ropeway::api::anthropic

#endif  // ROPEWAY_API_ANTHROPIC_REQUEST_H_
