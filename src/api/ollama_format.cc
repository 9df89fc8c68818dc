// Ollama's POST /api/chat and POST /api/generate, whose streams are lines of JSON.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/chat_messages.h"
#include "api/dialects.h"
#include "api/ollama_answer.h"
#include "api/ollama_request.h"
#include "api/responses_answer.h"
#include "base/chat_size.h"
#include "base/json.h"

namespace ropeway::api {
namespace {

using Json = nlohmann::ordered_json;

// A call as Ollama has it: its arguments are an object, not text. Arguments that are none are put
// into one.
void AppendOllamaCall(const ToolCall& call, size_t index, std::string* out) {
  *out += "{\"id\":";
  AppendJsonString(call.id, out);
  *out += fmt::format(",\"function\":{{\"index\":{},\"name\":", index);
  AppendJsonString(call.name, out);
  *out += ",\"arguments\":";
  // Written anew: a line must have no line feed, and a model may have written one.
  const StatusOr<std::string> text = ReadCallArguments(call.arguments, "arguments");
  const StatusOr<Json> object =
      base::ReadOrderedJson(text.ok() ? *text : "{}", base::kChatJsonBounds, "the arguments");
  *out += object.ok() ? DumpJson(*object) : "{}";
  *out += "}}";
}

std::string OllamaLogprobs(const std::vector<OutputToken>& tokens) {
  Json list = TokensJson(tokens);
  for (Json& token : list) {
    if (token["top_logprobs"].empty()) token.erase("top_logprobs");
  }
  return ",\"logprobs\":" + DumpJson(list);
}

// What of an answer was said, as one line has it.
struct OllamaSaid {
  std::string_view text = {};
  std::string_view thinking = {};
  std::string calls = {};  // JSON objects with commas between them.
};

class OllamaFormat final : public ApiFormat {
 public:
  explicit OllamaFormat(bool chat)
      : chat_(chat), table_(chat ? OllamaChatFields() : OllamaGenerateFields()) {}

  Status Parse(std::string_view body, const BodyLimits& limits) override {
    return ReadOllamaBody(body, limits, table_, &body_);
  }
  std::vector<std::string> Fields() const override { return NamesOf(table_); }
  ApiRequest* request() override { return &body_; }

  void Start(AnswerHead head) override {
    begin_ = "{\"model\":";
    AppendJsonString(head.model, &begin_);
    begin_ += ",\"created_at\":\"";
  }

  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    // What asks for no output asks that the model is loaded, which it is.
    if (choices.empty()) return Line({}, ",\"done\":true,\"done_reason\":\"load\"");
    const ChoiceOutput& output = choices.front();
    OllamaSaid said{output.text, output.reasoning};
    const bool cut = output.finish.reason == FinishReason::kLength;
    for (size_t i = 0; i < output.tool_calls.size(); ++i) {
      const bool last = i + 1 == output.tool_calls.size();
      if (last && cut && !IsWholeCall(output.tool_calls[i])) break;
      if (i > 0) said.calls += ',';
      AppendOllamaCall(output.tool_calls[i], i, &said.calls);
    }
    return Line(said, EndMembers(output.finish) +
                          (logprobs() ? OllamaLogprobs(output.tokens) : std::string()));
  }

  std::string_view stream_content_type() const override { return "application/x-ndjson"; }
  std::string Begin() override { return ""; }

  std::string OnDelta(size_t, Delta delta) override {
    OllamaSaid said{delta.text, delta.reasoning};
    for (const ToolCallDelta& more : delta.tool_calls) AddCall(more, &said);
    if (begun_ && last_.whole()) EndCall(&said);
    const bool tokens = logprobs() && !delta.tokens.empty();
    if (said.text.empty() && said.thinking.empty() && said.calls.empty() && !tokens) return "";
    return Line(said, ",\"done\":false" + (tokens ? OllamaLogprobs(delta.tokens) : std::string())) +
           "\n";
  }

  std::string OnEnd(size_t, const Finish& finish) override {
    OllamaSaid said;
    // A call that was cut could not be told from one that was not.
    if (begun_ && finish.reason != FinishReason::kLength) EndCall(&said);
    std::string lines = said.calls.empty() ? "" : Line(said, ",\"done\":false") + "\n";
    return lines + Line({}, EndMembers(finish)) + "\n";
  }

  std::string Done() override { return ""; }
  std::string StreamError(const ApiError& error) const override {
    return OllamaErrorJson(error) + "\n";
  }
  std::string_view id_prefix() const override { return "ollama-"; }
  std::string ErrorBody(const ApiError& error) const override { return OllamaErrorJson(error); }

 private:
  bool logprobs() const { return body_.request.logprobs.has_value(); }

  void AddCall(const ToolCallDelta& more, OllamaSaid* said) {
    if (begun_ && more.index != index_) EndCall(said);
    if (more.index != index_) {
      begun_ = true;
      index_ = more.index;
      call_ = {};
      last_ = {};
    }
    call_.id += more.id;
    call_.name += more.name;
    call_.arguments += more.arguments;
    last_.Add(more);
  }

  // The call is whole.
  void EndCall(OllamaSaid* said) {
    if (!said->calls.empty()) said->calls += ',';
    AppendOllamaCall(call_, static_cast<size_t>(index_), &said->calls);
    begun_ = false;
    call_ = {};
  }

  // A line, without its end. `members`: what follows what is said, each member behind a comma.
  std::string Line(const OllamaSaid& said, std::string_view members) const {
    std::string line = begin_;
    line += OllamaTime(std::chrono::system_clock::now());
    line += chat_ ? "\",\"message\":{\"role\":\"assistant\",\"content\":" : "\",\"response\":";
    AppendJsonString(said.text, &line);
    if (!said.thinking.empty()) {
      line += ",\"thinking\":";
      AppendJsonString(said.thinking, &line);
    }
    if (!said.calls.empty()) line += ",\"tool_calls\":[" + said.calls + "]";
    if (chat_) line += '}';
    line += members;
    line += '}';
    return line;
  }

  // The times are parts of the whole: from the last token on it is still the answer's.
  std::string EndMembers(const Finish& finish) const {
    const PhaseTimes& times = finish.times;
    const int64_t load = times.queue.count();
    const int64_t prompt = times.prefill.count();
    const int64_t eval = (times.decode + times.output).count();
    return fmt::format(
        ",\"done\":true,\"done_reason\":\"{}\",\"total_duration\":{},\"load_duration\":{},"
        "\"prompt_eval_count\":{},\"prompt_eval_duration\":{},\"eval_count\":{},"
        "\"eval_duration\":{}",
        finish.reason == FinishReason::kLength ? "length" : "stop", load + prompt + eval, load,
        finish.usage.prompt_tokens, prompt, finish.usage.completion_tokens, eval);
  }

  const bool chat_;
  const FieldTable<OpenAiBody>& table_;
  OllamaBody body_;
  std::string begin_;  // What every line begins with.

  // --- Of a stream.
  bool begun_ = false;  // There is a call that was not sent.
  int32_t index_ = -1;  // The last call's.
  ToolCall call_;
  LastCall last_;
};

}  // namespace

std::unique_ptr<ApiFormat> MakeOllamaChat() { return std::make_unique<OllamaFormat>(true); }
std::unique_ptr<ApiFormat> MakeOllamaGenerate() { return std::make_unique<OllamaFormat>(false); }

}  // namespace ropeway::api
