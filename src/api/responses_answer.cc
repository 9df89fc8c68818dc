#include "api/responses_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/chat_body.h"
#include "api/json.h"
#include "api/openai_format.h"

namespace ropeway::api {
namespace {

using Said = SaidPart::Kind;

// {"id", "type", "status": all that items begin with.
std::string ItemBegin(const OutputItem& item, const char* status) {
  const char* const type = item.kind == Said::kText      ? "message"
                           : item.kind == Said::kThought ? "reasoning"
                                                         : "function_call";
  std::string json = "{\"id\":";
  AppendJsonString(item.id, &json);
  return json + fmt::format(R"(,"type":"{}","status":"{}")", type, status);
}

// The item with this content: parts, or arguments.
std::string ItemWith(const OutputItem& item, const char* status, std::string_view content) {
  std::string json = ItemBegin(item, status);
  switch (item.kind) {
    case Said::kText:
      json += ",\"role\":\"assistant\",\"content\":[";
      break;
    case Said::kThought:
      json += ",\"summary\":[],\"content\":[";
      break;
    case Said::kCall:
      json += ",\"call_id\":";
      AppendJsonString(item.call->id, &json);
      json += ",\"name\":";
      AppendJsonString(item.call->name, &json);
      json += ",\"arguments\":";
      AppendJsonString(content, &json);
      return json + "}";
  }
  json += content;
  return json + "]}";
}

std::string UsageOf(const Usage& usage) {
  const int64_t input = usage.prompt_tokens;
  const int64_t output = usage.completion_tokens;
  const int64_t cached = std::min(usage.cached_tokens, usage.prompt_tokens);
  return fmt::format(
      R"({{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"cache_write_tokens":{}}},)"
      R"("output_tokens":{},"output_tokens_details":{{"reasoning_tokens":{}}},)"
      R"("total_tokens":{}{}}})",
      input, cached, input - cached, output, usage.reasoning_tokens, input + output,
      usage.estimated ? ",\"estimated\":true" : "");
}

// OpenAI's code of a response's error.
const char* ResponseErrorCode(const ApiError& error) {
  if (error.http_status == 429) return "rate_limit_exceeded";
  return error.http_status == 400 ? "invalid_prompt" : "server_error";
}

}  // namespace

std::string ContentPartJson(const OutputItem& item) {
  const bool text = item.kind == Said::kText;
  std::string json =
      text ? R"({"type":"output_text","text":)" : R"({"type":"reasoning_text","text":)";
  AppendJsonString(item.text, &json);
  if (text) json += ",\"annotations\":[],\"logprobs\":" + item.logprobs;
  return json + "}";
}

std::string ItemJson(const OutputItem& item) {
  if (item.kind == Said::kCall) return ItemWith(item, item.status, item.call->arguments);
  return ItemWith(item, item.status, ContentPartJson(item));
}

std::string LogprobsJson(const std::vector<OutputToken>& tokens, size_t begin, size_t count) {
  begin = std::min(begin, tokens.size());
  const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto size = static_cast<std::ptrdiff_t>(std::min(count, tokens.size() - begin));
  return DumpJson(TokensJson({first, first + size}));
}

std::string BegunItemJson(const OutputItem& item) { return ItemWith(item, "in_progress", ""); }

std::string OutputIds::Next(Said kind) {
  if (kind == Said::kCall) return fmt::format("fc_{}_{}", hex_, calls_++);
  int& before = kind == Said::kText ? texts_ : thoughts_;
  const char* const prefix = kind == Said::kText ? "msg_" : "rs_";
  const int index = before++;
  return index == 0 ? prefix + hex_ : fmt::format("{}{}_{}", prefix, hex_, index);
}

bool IsWholeCall(const ToolCall& call) {
  LastCall last;
  last.Add({0, "", "", call.arguments});
  return last.whole();
}

std::vector<OutputItem> ItemsOf(const ChoiceOutput& output, const std::string& hex, bool logprobs) {
  std::vector<SaidPart> parts = PartsOf(output);
  if (parts.empty()) parts.push_back({Said::kText, 0, output.tokens.size()});
  OutputIds ids(hex);
  std::vector<OutputItem> items;
  std::string_view text = output.text;
  std::string_view thoughts = output.reasoning;
  size_t token = 0;
  size_t call = 0;
  for (const SaidPart& part : parts) {
    OutputItem& item = items.emplace_back(OutputItem{.kind = part.kind, .id = ids.Next(part.kind)});
    if (part.kind == Said::kCall) {
      item.call = &output.tool_calls[call++];
    } else {
      std::string_view& rest = part.kind == Said::kText ? text : thoughts;
      item.text = rest.substr(0, part.bytes);
      rest.remove_prefix(item.text.size());
    }
    if (part.kind == Said::kText && logprobs) {
      item.logprobs = LogprobsJson(output.tokens, token, part.tokens);
    }
    token += part.tokens;
  }
  OutputItem& last = items.back();
  const bool cut = last.kind == Said::kCall ? !IsWholeCall(*last.call)
                                            : EndState({&output, 1}) != AnswerState::kCompleted;
  if (cut) last.status = "incomplete";
  return items;
}

std::string JoinItems(const std::vector<OutputItem>& items) {
  std::string list = "[";
  for (const OutputItem& item : items) {
    if (list.size() > 1) list += ',';
    list += ItemJson(item);
  }
  return list + "]";
}

std::string ResponseJson(const ResponsesBody& body, const AnswerHead& head,
                         const ResponseParts& parts) {
  std::string json;
  json.reserve(parts.output.size() + body.echo.size() + 1024);
  json += "{\"id\":";
  AppendJsonString(head.id, &json);
  json += fmt::format(R"(,"object":"response","created_at":{},"status":"{}","error":)",
                      head.created, AnswerStateName(parts.state));
  if (parts.error == nullptr) {
    json += "null";
  } else {
    json += fmt::format("{{\"code\":\"{}\",\"message\":", ResponseErrorCode(*parts.error));
    AppendJsonString(parts.error->message, &json);
    json += "}";
  }
  json += parts.state == AnswerState::kIncomplete
              ? R"(,"incomplete_details":{"reason":"max_output_tokens"})"
              : R"(,"incomplete_details":null)";
  json += ",\"model\":";
  AppendJsonString(head.model, &json);
  if (!head.fingerprint.empty()) {
    json += ",\"system_fingerprint\":";
    AppendJsonString(head.fingerprint, &json);
  }
  json += ",\"output\":";
  json += parts.output;
  json += ",\"usage\":" + (parts.finish == nullptr ? "null" : UsageOf(parts.finish->usage));
  json += fmt::format(",\"store\":{}", head.stored);
  if (body.service_tier) {
    json += fmt::format(",\"service_tier\":\"{}\"", ServiceTier(head.priority));
  }
  json += body.echo;
  if (parts.finish != nullptr) json += ",\"ropeway\":" + RopewayJson({parts.finish, 1});
  return json + "}";
}

ApiError InResponses(ApiError error) {
  const Status flat = WithFlatTools(InvalidArgument(error.message, error.param));
  error.message = flat.message();
  error.param = flat.field();
  if (error.param == "messages") error.param = "input";
  if (error.param == "max_tokens") error.param = "max_output_tokens";
  return error;
}

}  // namespace ropeway::api
