// POST /v1/chat/completions: OpenAI's chat.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "api/openai_format.h"
#include "base/json.h"
#include "base/utf8.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;
using base::Member;

// --- Messages.

constexpr std::string_view kPartFields[] = {"type", "text"};
constexpr std::string_view kMessageFields[] = {"role", "content", "name", "tool_call_id"};

// Leaves the fields of an object that are not `used` to the report.
void ReportOthers(const json& object, std::string_view parent, const std::string& at,
                  std::span<const std::string_view> used, FieldReport* report) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(used, name) != used.end()) continue;
    report->AddOther(parent, name, value, at + "." + ShownName(name), used);
  }
}

StatusOr<std::string> ReadTextPart(const json& part, const std::string& at, FieldReport* report) {
  if (!part.is_object()) return Mismatch(part, at, "an object");
  if (Member(part, "type") != "text") {
    return SupportsOnly(at + ".type", "\"text\"");
  }
  ReportOthers(part, "messages[].content[].", at, kPartFields, report);
  return ReadString(Member(part, "text"), at + ".text");
}

// Puts faults into the report.
std::string ReadContent(const json& content, const std::string& at, FieldReport* report) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) report->Add(Mismatch(content, at, "a string or a list of text parts"));
  std::string text;
  for (size_t i = 0; content.is_array() && i < content.size() && !report->full(); ++i) {
    if (i > 0) text += '\n';
    std::string part;
    report->Add(Store(ReadTextPart(content[i], fmt::format("{}[{}]", at, i), report), &part));
    text += part;
  }
  return text;
}

StatusOr<std::string> ReadRole(const json& role, const std::string& at) {
  StatusOr<std::string> name = ReadString(role, at);
  if (!name.ok()) return name.status();
  if (*name == "developer") return std::string("system");
  for (const char* known : {"system", "user", "assistant", "tool", "function"}) {
    if (*name == known) return name;
  }
  return InvalidArgument(
      fmt::format("'{}' must be one of system, developer, user, assistant, tool and function.", at),
      at);
}

// A text that may be absent. Puts faults into the report.
std::string ReadName(const json& message, const char* name, const std::string& at,
                     FieldReport* report) {
  const json& value = Member(message, name);
  std::string text;
  if (!value.is_null()) report->Add(Store(ReadString(value, at + "." + name), &text));
  return text;
}

Status CheckMessage(const ChatMessage& message, const std::string& at) {
  if (message.role == "function" && message.name.empty()) {
    return InvalidArgument(
        fmt::format("'{}.name' is required in a message of the role 'function'.", at),
        at + ".name");
  }
  if (message.role != "tool" && !message.tool_call_id.empty()) {
    return InvalidArgument(
        fmt::format("'{}.tool_call_id' is allowed only in a message of the role 'tool'.", at),
        at + ".tool_call_id");
  }
  return {};
}

// Puts faults into the report.
ChatMessage ReadMessage(const json& value, const std::string& at, FieldReport* report) {
  ChatMessage message;
  if (!value.is_object()) {
    report->Add(Mismatch(value, at, "an object"));
    return message;
  }
  report->Add(Store(ReadRole(Member(value, "role"), at + ".role"), &message.role));
  const json& content = Member(value, "content");
  // An assistant's message may consist of other fields alone.
  if (!content.is_null() || message.role != "assistant") {
    message.content = ReadContent(content, at + ".content", report);
  }
  message.name = ReadName(value, "name", at, report);
  message.tool_call_id = ReadName(value, "tool_call_id", at, report);
  if (!message.role.empty()) report->AddTogether(CheckMessage(message, at));
  ReportOthers(value, "messages[].", at, kMessageFields, report);
  return message;
}

// --- Fields.

Status ReadMessages(const json& value, const std::string& field, OpenAiBody* body) {
  StatusOr<std::vector<ChatMessage>> messages = ReadChatMessages(value, field, body->report);
  if (!messages.ok()) return messages.status();
  body->prompts.emplace_back(Chat{.messages = *std::move(messages)});
  return {};
}

// --- The answer.

Json ChatToken(std::string_view bytes, float logprob) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<uint8_t>(c));
  return {{"token", base::ReplaceInvalidUtf8(bytes)},
          {"logprob", FiniteLogprob(logprob)},
          {"bytes", std::move(list)}};
}

Json ChatLogprobs(const std::vector<OutputToken>& tokens) {
  Json content = Json::array();
  for (const OutputToken& token : tokens) {
    Json entry = ChatToken(token.bytes, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (size_t i = 0; i < TopCount(token); ++i) {
      entry["top_logprobs"].push_back(ChatToken(token.top_bytes[i], token.top_logprobs[i].logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
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
    if (!HasEvent(choice, delta)) return "";
    return Chunk(choice, TextMember(delta.text),
                 logprobs() ? DumpJson(ChatLogprobs(delta.tokens)) : "null", delta.tokens);
  }

 private:
  std::string TextMember(std::string_view text) const override {
    std::string member = "\"delta\":{\"content\":";
    AppendJsonString(text, &member);
    member += '}';
    return member;
  }

  void FinishBody(FieldReport* report) override {
    if (body_.prompts.empty()) {
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
    return {{"index", choice},
            {"message", {{"role", "assistant"}, {"content", output.text}, {"refusal", nullptr}}},
            {"logprobs", logprobs() ? ChatLogprobs(output.tokens) : Json(nullptr)}};
  }

  std::string MoreMembers(const std::vector<ChoiceOutput>& choices) const override {
    if (!body_.prompt_logprobs) return "";
    return "\"prompt_logprobs\":" + DumpJson(PromptLogprobs(choices.front().prompt_tokens)) + ",";
  }

  OpenAiBody body_;
};

}  // namespace

StatusOr<std::vector<ChatMessage>> ReadChatMessages(const json& value, const std::string& field,
                                                    FieldReport* report) {
  if (!value.is_array()) return Mismatch(value, field, "a list of messages");
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  std::vector<ChatMessage> messages;
  messages.reserve(value.size());
  for (size_t i = 0; i < value.size() && !report->full(); ++i) {
    messages.push_back(ReadMessage(value[i], fmt::format("{}[{}]", field, i), report));
  }
  return messages;
}

const FieldTable<OpenAiBody>& ChatFields() {
  static const FieldTable<OpenAiBody> table = WithOpenAiFields(
      kChat, {{"messages", ReadMessages},
              {"logprobs", FieldOf(ReadBool, &OpenAiBody::logprobs)},
              {"top_logprobs", IntField(0, kMaxLogprobs, &OpenAiBody::top_logprobs)}});
  return table;
}

std::unique_ptr<ApiFormat> MakeOpenAiChat() { return std::make_unique<ChatFormat>(); }

}  // namespace ropeway::api
