// POST /v1/chat/completions: OpenAI's chat.
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/chat_messages.h"
#include "api/openai_format.h"
#include "base/json.h"
#include "base/utf8.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;
using base::Member;

// --- Fields.

constexpr char kToolChoice[] = "tool_choice";

// The name in {"type": "function", "function": {"name"}}, which is at `at`.
StatusOr<std::string> ReadToolName(const json& value, const std::string& at, OpenAiBody* body) {
  const std::string inner = at + ".function";
  const json& function = Member(value, "function");
  if (!function.is_object()) return Mismatch(function, inner, "an object with the tool's \"name\"");
  const json& name = Member(function, "name");
  if (!name.is_string() || name == "") return Mismatch(name, inner + ".name", "the name of a tool");
  constexpr std::string_view kUsed[] = {"type", "function"};
  ReportOthers(value, "tool_choice.", at, kUsed, body->report);
  return name.get<std::string>();
}

// {"mode": "auto" or "required", "tools": [...]}.
Status ReadAllowedTools(const json& value, const std::string& at, OpenAiBody* body) {
  if (!value.is_object()) return Mismatch(value, at, "an object with \"mode\" and \"tools\"");
  const json& mode = Member(value, "mode");
  if (mode != "auto" && mode != "required") {
    return Mismatch(mode, at + ".mode", R"("auto" or "required")");
  }
  const json& tools = Member(value, "tools");
  if (!tools.is_array() || tools.empty()) {
    return Mismatch(tools, at + ".tools", "a list of at least one tool");
  }
  body->tool_choice = mode.get<std::string>();
  for (size_t i = 0; i < tools.size() && !body->report->full(); ++i) {
    const std::string place = fmt::format("{}.tools[{}]", at, i);
    if (!tools[i].is_object()) return Mismatch(tools[i], place, "an object");
    if (Member(tools[i], "type") != "function") {
      return SupportsOnly(place + ".type", "\"function\"");
    }
    StatusOr<std::string> name = ReadToolName(tools[i], place, body);
    if (!name.ok()) return name.status();
    body->allowed_tools.push_back(*std::move(name));
  }
  return {};
}

Status ReadToolChoice(const json& value, const std::string& field, OpenAiBody* body) {
  const json& type = Member(value, "type");
  if (type == "allowed_tools") {
    return ReadAllowedTools(Member(value, "allowed_tools"), field + ".allowed_tools", body);
  }
  if (type == "function") {
    body->tool_choice = "function";
    return Store(ReadToolName(value, field, body), &body->tool_name);
  }
  if (value != "none" && value != "auto" && value != "required") {
    return Mismatch(value, field,
                    R"("none", "auto", "required", {"type": "function", "function": {"name"}} or )"
                    R"({"type": "allowed_tools", "allowed_tools": {"mode", "tools"}})");
  }
  body->tool_choice = value.get<std::string>();
  return {};
}

using Names = std::set<std::string_view>;

Status NoneOfTheTools(const std::string& field, const std::string& name) {
  return InvalidArgument(
      fmt::format("'{}' is '{}', which is none of 'tools'.", field, ShownName(name)), field);
}

// Leaves the model only the tools that it may call.
void KeepAllowedTools(const std::vector<std::string>& allowed, const Names& names, Chat* chat,
                      FieldReport* report) {
  for (size_t i = 0; i < allowed.size() && !report->full(); ++i) {
    if (names.contains(allowed[i])) continue;
    report->AddTogether(
        NoneOfTheTools(fmt::format("tool_choice.allowed_tools.tools[{}].function.name", i),
                       allowed[i]),
        {"tools"});
  }
  const Names kept(allowed.begin(), allowed.end());
  std::erase_if(chat->tools, [&](const Tool& tool) { return !kept.contains(tool.name); });
}

void SetToolChoice(const OpenAiBody& body, Chat* chat, FieldReport* report) {
  const std::string& choice = body.tool_choice;
  // A tool that is named is called once, as at OpenAI: its arguments are the answer.
  chat->parallel_tool_calls = body.parallel_tool_calls && body.tool_name.empty();
  if (chat->tools.empty()) {
    if (choice == "required" || choice == "function") {
      report->AddTogether(InvalidArgument("'tool_choice' needs 'tools' to be called.", kToolChoice),
                          {"tools"});
    }
    return;
  }
  if (choice == "none") chat->tool_choice = ToolChoice::kNone;
  if (choice == "required" || choice == "function") chat->tool_choice = ToolChoice::kRequired;
  chat->tool_name = body.tool_name;
  Names names;
  for (const Tool& tool : chat->tools) names.insert(tool.name);
  if (!body.tool_name.empty() && !names.contains(body.tool_name)) {
    report->AddTogether(NoneOfTheTools("tool_choice.function.name", body.tool_name), {"tools"});
  }
  if (!body.allowed_tools.empty()) KeepAllowedTools(body.allowed_tools, names, chat, report);
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
    own.insert({{kToolChoice, ReadToolChoice},
                {"parallel_tool_calls", FieldOf(ReadBool, &OpenAiBody::parallel_tool_calls)},
                {"logprobs", FieldOf(ReadBool, &OpenAiBody::logprobs)},
                {"top_logprobs", IntField(0, kMaxLogprobs, &OpenAiBody::top_logprobs)}});
    return WithOpenAiFields(kChat, std::move(own));
  }();
  return table;
}

std::unique_ptr<ApiFormat> MakeOpenAiChat() { return std::make_unique<ChatFormat>(); }

}  // namespace ropeway::api
