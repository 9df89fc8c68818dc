// POST /v1/chat/completions: OpenAI's chat.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "api/openai_format.h"
#include "api/tool_choice.h"

namespace ropeway::api {
namespace {

using Json = nlohmann::ordered_json;

// --- The answer.

Json ChatLogprobs(const std::vector<OutputToken>& tokens) {
  return {{"content", TokensJson(tokens)}, {"refusal", nullptr}};
}

// As OpenAI streams a call: what it is with its first piece, then more of its arguments.
void AppendCall(const ToolCallDelta& call, std::string* out) {
  *out += fmt::format("{{\"index\":{},", call.index);
  const bool begins = !call.name.empty();
  if (begins) {
    *out += "\"id\":";
    AppendJsonString(call.id, out);
    *out += ",\"type\":\"function\",";
  }
  *out += "\"function\":{";
  if (begins) {
    *out += "\"name\":";
    AppendJsonString(call.name, out);
    *out += ',';
  }
  *out += "\"arguments\":";
  AppendJsonString(call.arguments, out);
  *out += "}}";
}

class ChatFormat final : public OpenAiFormat {
 public:
  ChatFormat()
      : OpenAiFormat({.id_prefix = "chatcmpl-",
                      .object = "chat.completion",
                      .chunk_object = "chat.completion.chunk",
                      .no_output = "\"delta\":{}",
                      .zero_tokens_need = "'prompt_logprobs'"},
                     ChatFields(), &body_) {}

  // The chunks that name the role.
  std::string Begin() override {
    std::string out;
    for (size_t i = 0; i < body_.choices(); ++i) {
      out += Chunk(i, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}", "null");
    }
    return out;
  }

  std::string OnDelta(size_t choice, Delta delta) override {
    if (!HasEvent(choice, &delta)) return "";
    return Chunk(choice, OutputMember(delta),
                 logprobs() ? DumpJson(ChatLogprobs(delta.tokens)) : "null", delta.tokens);
  }

 private:
  std::string OutputMember(const Delta& delta) const override {
    std::string member = "\"delta\":{";
    const size_t begin = member.size();
    const auto add = [&](const char* name, std::string_view text) {
      if (member.size() > begin) member += ',';
      member += name;
      AppendJsonString(text, &member);
    };
    if (!delta.reasoning.empty()) add("\"reasoning_content\":", delta.reasoning);
    if (!delta.text.empty() || !delta.says()) add("\"content\":", delta.text);
    if (!delta.tool_calls.empty()) {
      if (member.size() > begin) member += ',';
      member += "\"tool_calls\":[";
      for (size_t i = 0; i < delta.tool_calls.size(); ++i) {
        if (i > 0) member += ',';
        AppendCall(delta.tool_calls[i], &member);
      }
      member += ']';
    }
    member += '}';
    return member;
  }

  const char* StopReason(bool calls) const override { return calls ? "tool_calls" : "stop"; }

  void FinishBody(FieldReport* report) override {
    if (body_.has_messages) {
      Chat chat = TakeChat(&body_, report);
      SetToolChoice(body_, &chat, report);
      body_.prompts.emplace_back(std::move(chat));
    } else {
      report->AddTogether(InvalidArgument("'messages' is required.", "messages"));
    }
    Request& request = body_.request;
    if (body_.top_logprobs && !body_.logprobs) {
      report->AddTogether(
          InvalidArgument("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs"),
          {"logprobs"});
    }
    if (body_.logprobs) request.logprobs = body_.top_logprobs.value_or(0);
    // The answer shows the prompt's log-probabilities once. Without a token to generate, they are
    // all that each choice computes.
    body_.prompt_logprobs_once = request.max_tokens != 0;
  }

  Json ChoiceJson(size_t choice, const ChoiceOutput& output) const override {
    Json message = {{"role", "assistant"}, {"content", output.text}, {"refusal", nullptr}};
    if (!output.reasoning.empty()) message["reasoning_content"] = output.reasoning;
    if (!output.tool_calls.empty()) {
      if (output.text.empty()) message["content"] = nullptr;
      Json& list = message["tool_calls"] = Json::array();
      for (const ToolCall& call : output.tool_calls) {
        list.push_back({{"id", call.id},
                        {"type", "function"},
                        {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
      }
    }
    return {{"index", choice},
            {"message", std::move(message)},
            {"logprobs", logprobs() ? ChatLogprobs(output.tokens) : Json(nullptr)}};
  }

  std::string MoreMembers(const std::vector<ChoiceOutput>& choices) const override {
    if (!body_.prompt_logprobs) return "";
    return "\"prompt_logprobs\":" + DumpJson(PromptLogprobs(choices.front().prompt_tokens)) + ",";
  }

  OpenAiBody body_;
};

}  // namespace

const FieldTable<OpenAiBody>& ChatFields() {
  static const FieldTable<OpenAiBody> table = [] {
    FieldReaders<OpenAiBody> own = ChatReaders<OpenAiBody>();
    own.insert({{"tool_choice", ReadToolChoice},
                {"parallel_tool_calls", FieldOf(ReadBool, &OpenAiBody::parallel_tool_calls)},
                {"logprobs", FieldOf(ReadBool, &OpenAiBody::logprobs)},
                {"top_logprobs", IntField(0, kMaxLogprobs, &OpenAiBody::top_logprobs)}});
    return WithOpenAiFields(kChat, std::move(own));
  }();
  return table;
}

std::unique_ptr<ApiFormat> MakeOpenAiChat() { return std::make_unique<ChatFormat>(); }

}  // namespace ropeway::api
