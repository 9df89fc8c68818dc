#include "api/responses_stream.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "api/json.h"
#include "api/openai_format.h"

namespace ropeway::api {
namespace {

using Said = SaidPart::Kind;

// Log-probabilities that a stream keeps to show them again at its end: some 5 MB. Where there are
// more, they are in the events of the text alone.
constexpr size_t kMostKeptLogprobs = 65'536;

std::string Quoted(std::string_view text) {
  std::string json;
  AppendJsonString(text, &json);
  return json;
}

}  // namespace

ResponsesStream::ResponsesStream(const ResponsesBody* body, const AnswerHead* head, std::string hex)
    : body_(body), head_(head), hex_(std::move(hex)), ids_(hex_) {}

std::string ResponsesStream::EventAt(int64_t number, std::string_view type,
                                     std::string_view members) const {
  if (number <= after_) return "";
  std::string event;
  event.reserve(2 * type.size() + members.size() + 64);
  event += "event: ";
  event += type;
  event += "\ndata: {\"type\":\"";
  event += type;
  event += fmt::format("\",\"sequence_number\":{}", number);
  event += members;
  return event + "}\n\n";
}

std::string ResponsesStream::Event(std::string_view type, std::string_view members) {
  return EventAt(next_++, type, members);
}

std::string ResponsesStream::ItemEvent(std::string_view type, std::string_view members) {
  std::string all = ",\"item_id\":" + Quoted(id_) + fmt::format(",\"output_index\":{}", index_);
  if (kind_ != Said::kCall) all += ",\"content_index\":0";
  all += members;
  return Event(type, all);
}

std::string ResponsesStream::ResponseEvent(std::string_view type, const ResponseParts& parts) {
  // Long bodies are not written for nothing.
  if (next_ <= after_) return Event(type, "");
  return Event(type, ",\"response\":" + ResponseJson(*body_, *head_, parts));
}

std::string ResponsesStream::Begin() {
  const bool queued = body_->keeping.background;
  const auto first = queued ? AnswerState::kQueued : AnswerState::kInProgress;
  std::string out = ResponseEvent("response.created", {.state = first});
  if (queued) out += ResponseEvent("response.queued", {.state = first});
  return out + ResponseEvent("response.in_progress", {.state = AnswerState::kInProgress});
}

void ResponsesStream::Keep(const Delta& delta) {
  Delta kept;
  kept.text = delta.text;
  kept.reasoning = delta.reasoning;
  kept.tool_calls = delta.tool_calls;
  const bool first = said_.parts.empty();
  if (logprobs() && !drops_logprobs_) {
    kept.tokens = delta.tokens;
    for (const OutputToken& token : delta.tokens) kept_logprobs_ += 1 + token.top_logprobs.size();
    drops_logprobs_ = kept_logprobs_ > kMostKeptLogprobs;
  }
  AddTo(std::move(kept), &said_);
  if (drops_logprobs_) said_.tokens = {};
  if (!logprobs()) return;
  // Before anything was said they wait for what comes first.
  if (first && !said_.parts.empty() && said_.parts.front().kind != Said::kText) unshown_.clear();
  if (said_.parts.empty() || said_.parts.back().kind == Said::kText) {
    unshown_.insert(unshown_.end(), delta.tokens.begin(), delta.tokens.end());
  }
}

std::string ResponsesStream::OnDelta(Delta delta) {
  Keep(delta);
  std::string out;
  if (!delta.reasoning.empty()) out += ShowText(Said::kThought, delta.reasoning);
  if (!delta.text.empty()) out += ShowText(Said::kText, delta.text);
  for (const ToolCallDelta& call : delta.tool_calls) out += ShowCall(call);
  return out;
}

OutputItem ResponsesStream::OpenItem() const {
  const SaidPart& part = said_.parts[static_cast<size_t>(index_)];
  OutputItem item{.kind = kind_, .id = id_};
  if (kind_ == Said::kCall) {
    size_t call = 0;
    for (int i = 0; i < index_; ++i) {
      call += said_.parts[static_cast<size_t>(i)].kind == Said::kCall ? 1 : 0;
    }
    item.call = &said_.tool_calls[call];
    return item;
  }
  const bool text = kind_ == Said::kText;
  item.text = std::string_view(text ? said_.text : said_.reasoning)
                  .substr(text_begin_[text ? 1 : 0], part.bytes);
  if (text && logprobs()) item.logprobs = LogprobsJson(said_.tokens, token_begin_, part.tokens);
  return item;
}

std::string ResponsesStream::Open(Said kind, const ToolCall* call) {
  std::string out;
  if (index_ >= 0) {
    out = Close(OpenItem());
    const SaidPart& part = said_.parts[static_cast<size_t>(index_)];
    if (kind_ != Said::kCall) text_begin_[kind_ == Said::kText ? 1 : 0] += part.bytes;
    token_begin_ += part.tokens;
  }
  ++index_;
  kind_ = kind;
  id_ = ids_.Next(kind);
  const OutputItem begun{.kind = kind, .id = id_, .call = call};
  out += Event("response.output_item.added",
               fmt::format(",\"output_index\":{},\"item\":", index_) + BegunItemJson(begun));
  if (kind == Said::kCall) return out;
  return out + ItemEvent("response.content_part.added", ",\"part\":" + ContentPartJson(begun));
}

std::string ResponsesStream::Close(const OutputItem& item) {
  std::string out;
  if (item.kind == Said::kCall) {
    out = ItemEvent(
        "response.function_call_arguments.done",
        ",\"name\":" + Quoted(item.call->name) + ",\"arguments\":" + Quoted(item.call->arguments));
  } else {
    const bool text = item.kind == Said::kText;
    out = ItemEvent(
        text ? "response.output_text.done" : "response.reasoning_text.done",
        ",\"text\":" + Quoted(item.text) + (text ? ",\"logprobs\":" + item.logprobs : ""));
    out += ItemEvent("response.content_part.done", ",\"part\":" + ContentPartJson(item));
  }
  if (kind_ == Said::kText) unshown_.clear();
  return out + Event("response.output_item.done",
                     fmt::format(",\"output_index\":{},\"item\":", index_) + ItemJson(item));
}

std::string ResponsesStream::ShowText(Said kind, std::string_view text) {
  std::string out;
  if (index_ < 0 || kind_ != kind) out = Open(kind, nullptr);
  std::string members = ",\"delta\":" + Quoted(text);
  if (kind == Said::kText) {
    members += ",\"logprobs\":";
    members += unshown_.empty() ? "[]" : DumpJson(TokensJson(unshown_));
    unshown_.clear();
  }
  return out + ItemEvent(kind == Said::kText ? "response.output_text.delta"
                                             : "response.reasoning_text.delta",
                         members);
}

std::string ResponsesStream::ShowCall(const ToolCallDelta& call) {
  std::string out;
  const auto index = static_cast<size_t>(call.index);
  if (index >= said_.tool_calls.size()) return out;  // One was left out: AddTo.
  if (!call.name.empty()) out = Open(Said::kCall, &said_.tool_calls[index]);
  const bool is_open =
      index_ >= 0 && kind_ == Said::kCall && OpenItem().call == &said_.tool_calls[index];
  if (call.arguments.empty() || !is_open) return out;
  return out + ItemEvent("response.function_call_arguments.delta",
                         ",\"delta\":" + Quoted(call.arguments));
}

std::string ResponsesStream::OnEnd(const Finish& finish) {
  said_.finish = finish;
  const std::vector<OutputItem> items = ItemsOf(said_, hex_, logprobs() && !drops_logprobs_);
  std::string out;
  if (index_ < 0) out = Open(Said::kText, nullptr);
  out += Close(items.back());
  const AnswerState state = EndState({&said_, 1});
  const std::string output = JoinItems(items);
  return out + ResponseEvent(
                   state == AnswerState::kCompleted ? "response.completed" : "response.incomplete",
                   {.state = state, .output = output, .finish = &finish});
}

std::string ResponsesStream::Failure(const ApiError& error) const {
  if (error.code == kAnswerCancelled) {
    // OpenAI's events have none for this. Of those that end a stream, "response.failed" would tell
    // of an error, and "error" makes clients raise one.
    return EventAt(
        next_, "response.incomplete",
        ",\"response\":" + ResponseJson(*body_, *head_, {.state = AnswerState::kCancelled}));
  }
  const ResponseParts failed{.state = AnswerState::kFailed, .error = &error};
  std::string out =
      EventAt(next_, "response.failed", ",\"response\":" + ResponseJson(*body_, *head_, failed));
  // OpenAI's clients raise what has a member "error".
  const nlohmann::json told = nlohmann::json::parse(ErrorJson(error));
  const auto member = [&](const char* name) { return told["error"][name].dump(); };
  return out +
         EventAt(next_ + 1, "error",
                 fmt::format(R"(,"code":{},"message":{},"param":{},"error":{})", member("code"),
                             member("message"), member("param"), told["error"].dump()));
}

}  // namespace ropeway::api
