// The fields of /v1/chat/completions alone.
#include <limits>
#include <utility>
#include <vector>

#include "server/chat_messages.h"
#include "server/request_draft.h"

namespace ropeway {
namespace {

using nlohmann::json;

Status ReadMessages(const json& value, const std::string& field, Draft* draft) {
  StatusOr<std::vector<ChatMessage>> messages = ReadChatMessages(value, field);
  if (!messages.ok()) return messages.status();
  draft->api.prompts.emplace_back(*std::move(messages));
  return {};
}

Status ReadMaxCompletionTokens(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadInt32(value, field, 0, std::numeric_limits<int32_t>::max()),
               &draft->max_completion_tokens);
}

Status ReadChatLogprobs(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadBool(value, field), &draft->chat_logprobs);
}

Status ReadTopLogprobs(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadInt32(value, field, 0, kMaxLogprobs), &draft->top_logprobs);
}

Status ReadToolChoice(const json& value, const std::string& field, Draft*) {
  if (value == "none" || value == "auto") return {};  // There are no tools to choose from.
  return Unsupported(field);
}

Status ReadModalities(const json& value, const std::string& field, Draft*) {
  if (value == json::array({"text"})) return {};
  return Unsupported(field, " but as [\"text\"]");
}

}  // namespace

void AddChatFields(FieldTable* table) {
  table->insert({{"messages", ReadMessages},
                 {"max_completion_tokens", ReadMaxCompletionTokens},
                 {"logprobs", ReadChatLogprobs},
                 {"top_logprobs", ReadTopLogprobs},
                 {"tools", RefuseUnlessEmpty},
                 {"functions", RefuseUnlessEmpty},
                 {"tool_choice", ReadToolChoice},
                 {"function_call", ReadToolChoice},
                 {"parallel_tool_calls", IgnoreBool},  // There are no tools to call.
                 {"modalities", ReadModalities},
                 {"audio", Refuse},
                 {"prediction", Refuse},
                 {"reasoning_effort", Refuse},
                 {"verbosity", Refuse},
                 {"web_search_options", Refuse},
                 {"moderation", Refuse},
                 {"documents", RefuseUnlessEmpty},
                 {"chat_template", Refuse},
                 {"chat_template_kwargs", RefuseUnlessEmpty},
                 {"mm_processor_kwargs", RefuseUnlessEmpty},
                 {"add_generation_prompt", RefuseUnlessTrue},
                 {"continue_final_message", RefuseUnlessFalse},
                 {"add_special_tokens", RefuseUnlessFalse},
                 {"echo", RefuseUnlessFalse}});
}

}  // namespace ropeway
