#include "api/anthropic_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "api/chat_messages.h"
#include "api/json.h"

namespace ropeway::api::anthropic {
namespace {

using Said = SaidPart::Kind;

constexpr std::string_view kNoSignature = ",\"signature\":\"\"}";

std::string Quoted(std::string_view text) {
  std::string json;
  AppendJsonString(text, &json);
  return json;
}

std::string TextBlock(std::string_view text) {
  return "{\"type\":\"text\",\"text\":" + Quoted(text) + "}";
}

std::string ThoughtBlock(std::string_view thought) {
  return "{\"type\":\"thinking\",\"thinking\":" + Quoted(thought) + std::string(kNoSignature);
}

// `input`: a JSON object as text.
std::string CallBlock(std::string_view id, std::string_view name, std::string_view input) {
  return "{\"type\":\"tool_use\",\"id\":" + Quoted(id) + ",\"name\":" + Quoted(name) +
         ",\"input\":" + std::string(input) + "}";
}

std::string ContentJson(const ChoiceOutput& output, bool omits_thoughts) {
  std::string_view text = output.text;
  std::string_view thoughts = output.reasoning;
  const auto take = [](std::string_view* from, size_t bytes) {
    const std::string_view taken = from->substr(0, bytes);
    from->remove_prefix(taken.size());
    return taken;
  };
  std::string list = "[";
  size_t call = 0;
  for (const SaidPart& part : PartsOf(output)) {
    if (list.size() > 1) list += ',';
    if (part.kind == Said::kText) {
      list += TextBlock(take(&text, part.bytes));
    } else if (part.kind == Said::kThought) {
      const std::string_view thought = take(&thoughts, part.bytes);
      list += ThoughtBlock(omits_thoughts ? "" : thought);
    } else {
      const ToolCall& made = output.tool_calls[call++];
      // One that was cut has no input yet that is an object; what there is of it is in that.
      const StatusOr<std::string> input = ReadCallArguments(made.arguments, "input");
      list += CallBlock(made.id, made.name, input.ok() ? *input : "{}");
    }
  }
  return list + "]";
}

// {"stop_reason", "stop_sequence"}, without braces.
std::string StopJson(const Finish& finish, const Request& request, bool calls) {
  const char* reason = calls ? "tool_use" : "end_turn";
  std::string sequence = "null";
  const auto stop = static_cast<size_t>(finish.stop);
  if (finish.reason == FinishReason::kLength) {
    const bool context = finish.max_tokens > 0 && *finish.cut_by == '\0';
    reason = context ? "model_context_window_exceeded" : "max_tokens";
  } else if (finish.stop >= 0 && stop < request.stop.size()) {
    reason = "stop_sequence";
    sequence = Quoted(request.stop[stop]);
  }
  return fmt::format(R"("stop_reason":"{}","stop_sequence":{})", reason, sequence);
}

// Tokens from the cache are not among the input's. What is put into it is not counted: that costs
// nothing.
std::string UsageMembers(const Usage& usage) {
  const int32_t cached = std::clamp(usage.cached_tokens, 0, std::max(usage.prompt_tokens, 0));
  std::string members = fmt::format(
      R"("input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{},)"
      R"("output_tokens":{})",
      usage.prompt_tokens - cached, cached, usage.completion_tokens);
  if (usage.reasoning_tokens > 0) {
    members +=
        fmt::format(R"(,"output_tokens_details":{{"thinking_tokens":{}}})", usage.reasoning_tokens);
  }
  if (usage.estimated) members += ",\"estimated\":true";
  return members;
}

const char* TierOf(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return "priority";
    case Priority::kMedium:
      return "standard";
    case Priority::kLow:
      return "batch";
  }
  return "standard";
}

// The message, with its content as JSON.
std::string Assembled(const AnswerHead& head, std::string_view content, std::string_view stop,
                      const Usage& usage, std::string_view more) {
  std::string json = "{\"id\":" + Quoted(head.id);
  json += R"(,"type":"message","role":"assistant","model":)" + Quoted(head.model);
  json += ",\"content\":";
  json += content;
  json += ',';
  json += stop;
  json += ",\"usage\":{" + UsageMembers(usage);
  json += fmt::format(",\"service_tier\":\"{}\"}}", TierOf(head.priority));
  json += more;
  return json + "}";
}

// Anthropic's type of an error.
const char* ErrorType(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
    case 504:
      return "timeout_error";
    case 409:
      return "conflict_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

// One event; `members` are those behind its type.
std::string Event(std::string_view type, std::string_view members) {
  std::string event;
  event.reserve(2 * type.size() + members.size() + 32);
  event += "event: ";
  event += type;
  event += "\ndata: {\"type\":\"";
  event += type;
  event += '"';
  event += members;
  return event + "}\n\n";
}

std::string RopewayMember(const Finish& finish) {
  return ",\"ropeway\":" + RopewayJson(std::span(&finish, 1));
}

// How a request that only caches its prompt ends, whatever token came.
Finish WithoutOutput(Finish finish) {
  finish.reason = FinishReason::kLength;
  finish.max_tokens = 0;
  finish.usage.completion_tokens = finish.usage.reasoning_tokens = 0;
  return finish;
}

}  // namespace

std::string MessageJson(const Body& body, const AnswerHead& head, const ChoiceOutput& output) {
  if (body.only_caches) {
    const Finish finish = WithoutOutput(output.finish);
    return Assembled(head, "[]", StopJson(finish, body.request, false), finish.usage,
                     RopewayMember(finish));
  }
  LastCall last;
  if (!output.tool_calls.empty()) last.Add({0, "", "", output.tool_calls.back().arguments});
  return Assembled(head, ContentJson(output, body.omits_thoughts),
                   StopJson(output.finish, body.request, last.whole()), output.finish.usage,
                   RopewayMember(output.finish));
}

std::string ErrorJson(const ApiError& error) {
  std::string json = fmt::format(R"({{"type":"error","error":{{"type":"{}","message":)",
                                 ErrorType(error.http_status));
  AppendJsonString(error.message, &json);
  if (!error.code.empty()) json += ",\"details\":{\"error_code\":" + Quoted(error.code) + "}";
  return json +
         "},\"request_id\":" + (error.request_id.empty() ? "null" : Quoted(error.request_id)) + "}";
}

std::string Stream::Begin(int64_t prompt_tokens) const {
  const Usage usage = {.prompt_tokens = static_cast<int32_t>(prompt_tokens)};
  const std::string message =
      Assembled(*head_, "[]", R"("stop_reason":null,"stop_sequence":null)", usage, "");
  return Event("message_start", ",\"message\":" + message) + Event("ping", "");
}

std::string Stream::BlockEvent(std::string_view type, std::string_view members) const {
  return Event(type, fmt::format(",\"index\":{}{}", index_, members));
}

std::string Stream::More(std::string_view type, std::string_view member,
                         std::string_view text) const {
  std::string members = fmt::format(R"(,"delta":{{"type":"{}","{}":)", type, member);
  AppendJsonString(text, &members);
  return BlockEvent("content_block_delta", members + "}");
}

std::string Stream::Stop() {
  if (!open_) return "";
  open_ = false;
  // Clients expect that a thought is signed.
  std::string out = kind_ == Said::kThought ? More("signature_delta", "signature", "") : "";
  return out + BlockEvent("content_block_stop", "");
}

std::string Stream::Start(Said kind, std::string_view block) {
  std::string out = Stop();
  ++index_;
  open_ = true;
  kind_ = kind;
  return out + BlockEvent("content_block_start", fmt::format(",\"content_block\":{}", block));
}

std::string Stream::OnCall(const ToolCallDelta& call) {
  std::string out;
  if (!call.name.empty()) {
    out = Start(Said::kCall, CallBlock(call.id, call.name, "{}"));
    call_ = call.index;
  }
  last_.Add(call);
  const bool goes_on = open_ && kind_ == Said::kCall && call_ == call.index;
  if (call.arguments.empty() || !goes_on) return out;
  return out + More("input_json_delta", "partial_json", call.arguments);
}

std::string Stream::OnDelta(const Delta& delta) {
  if (body_->only_caches) return "";
  std::string out;
  const auto goes_on = [this](Said kind) { return open_ && kind_ == kind; };
  if (!delta.reasoning.empty()) {
    if (!goes_on(Said::kThought)) out += Start(Said::kThought, ThoughtBlock(""));
    if (!body_->omits_thoughts) out += More("thinking_delta", "thinking", delta.reasoning);
  }
  if (!delta.text.empty()) {
    if (!goes_on(Said::kText)) out += Start(Said::kText, TextBlock(""));
    out += More("text_delta", "text", delta.text);
  }
  for (const ToolCallDelta& call : delta.tool_calls) out += OnCall(call);
  return out;
}

std::string Stream::OnEnd(const Finish& end) {
  const Finish finish = body_->only_caches ? WithoutOutput(end) : end;
  std::string out = Stop();
  out += Event("message_delta", ",\"delta\":{" + StopJson(finish, body_->request, last_.whole()) +
                                    "},\"usage\":{" + UsageMembers(finish.usage) + "}" +
                                    RopewayMember(finish));
  return out + Event("message_stop", "");
}

}  // namespace ropeway::api::anthropic
