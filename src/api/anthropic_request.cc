#include "api/anthropic_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/anthropic_messages.h"
#include "api/chat_messages.h"
#include "api/json.h"
#include "api/output_format.h"
#include "api/parameter_json.h"
#include "api/tool_choice.h"
#include "base/json.h"
#include "core/parameters.h"

namespace ropeway::api::anthropic {
namespace {

using base::Member;
using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

using BodyReader = Status (*)(const json& value, const std::string& field, Body* body);

FieldReader<OpenAiBody> Own(BodyReader read) {
  return [read](const json& value, const std::string& field, OpenAiBody* body) {
    return read(value, field, static_cast<Body*>(body));
  };
}

Status ReadMessageList(const json& value, const std::string& field, Body* body) {
  body->has_messages = true;
  return Store(ReadMessages(value, field, *body), &body->messages);
}

Status ReadSystemField(const json& value, const std::string& field, Body* body) {
  return ReadSystem(value, field, body->report, &body->system);
}

Status ReadStopSequences(const json& value, const std::string& field, Body* body) {
  if (!value.is_array()) return Mismatch(value, field, "a list of strings");
  for (size_t i = 0; i < value.size(); ++i) {
    if (!value[i].is_string())
      return Mismatch(value[i], fmt::format("{}[{}]", field, i), "a string");
  }
  return ReadParameter(*core::FindParameter("stop"), value, field, &body->request);
}

Status ReadMetadata(const json& value, const std::string& field, Body* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  constexpr std::string_view kUsed[] = {"user_id"};
  ReadTextMember(value, "user_id", field, body->report);
  ReportOthers(value, "metadata.", field, kUsed, body->report);
  return {};
}

// What Anthropic calls standard is the class that is neither bought nor left for later.
Status ReadServiceTier(const json& value, const std::string& field, Body* body) {
  if (value == "standard_only") {
    body->tier = Priority::kMedium;
  } else if (value != "auto") {
    return Mismatch(value, field, R"("auto" or "standard_only")");
  }
  return {};
}

// --- Thoughts.

Status ReadThinking(const json& value, const std::string& field, Body* body) {
  constexpr char kForms[] =
      R"({"type": "enabled", "budget_tokens"}, {"type": "adaptive"}, {"type": "between_tools"} or )"
      R"({"type": "disabled"})";
  if (!value.is_object()) return Mismatch(value, field, kForms);
  const json& type = Member(value, "type");
  const bool known = type == "enabled" || type == "adaptive" || type == "between_tools";
  if (!known && type != "disabled") {
    return Mismatch(type, field + ".type",
                    R"("enabled", "adaptive", "between_tools" or "disabled")");
  }
  body->thinking = known;
  constexpr std::string_view kUsed[] = {"type", "budget_tokens", "display"};
  ReportOthers(value, "thinking.", field, kUsed, body->report);
  // A model thinks as long as it does, within max_tokens.
  const json& budget = Member(value, "budget_tokens");
  if (!budget.is_null()) {
    body->report->Add(ReadInt32(budget, field + ".budget_tokens", 0, INT32_MAX).status());
  }
  const json& display = Member(value, "display");
  if (!display.is_null() && display != "summarized" && display != "omitted") {
    body->report->Add(Mismatch(display, field + ".display", R"("summarized" or "omitted")"));
  }
  body->omits_thoughts = display == "omitted";
  return {};
}

// --- Tools.

void ReadTool(const json& value, const OrderedJson& ordered, const std::string& at, Body* body) {
  FieldReport* const report = body->report;
  if (!value.is_object()) return report->Add(Mismatch(value, at, "an object"));
  const json& type = Member(value, "type");
  if (type.is_string() && type != "custom") {
    return report->Add(Unsupported(
        at + ".type", fmt::format(" as \"{}\": this server has no tools of its own, and calls none",
                                  ShownName(type.get<std::string>()))));
  }
  if (!type.is_string() && !type.is_null()) {
    return report->Add(Mismatch(type, at + ".type", "\"custom\""));
  }
  Tool& tool = body->tools.emplace_back();
  report->Add(Store(ReadString(Member(value, "name"), at + ".name"), &tool.name));
  tool.description = ReadTextMember(value, "description", at, report);
  if (Member(value, "input_schema").is_object()) {
    tool.parameters = DumpJson(ordered["input_schema"]);
  } else {
    report->Add(
        Mismatch(Member(value, "input_schema"), at + ".input_schema", "a JSON Schema: an object"));
  }
  const json& strict = Member(value, "strict");
  if (!strict.is_null()) report->Add(Store(ReadBool(strict, at + ".strict"), &tool.strict));
  constexpr std::string_view kUsed[] = {"type", "name", "description", "input_schema", "strict"};
  ReportOthers(value, "tools[].", at, kUsed, report);
}

Status ReadTools(const json& value, const std::string& field, Body* body) {
  if (!value.is_array()) return Mismatch(value, field, "a list of tools");
  if (value.empty()) return {};
  const StatusOr<OrderedJson> ordered =
      base::ReadOrderedMember(body->text, {field}, body->bounds, "the list of tools");
  if (!ordered.ok()) return InvalidArgument(field + ": " + ordered.status().message(), field);
  for (size_t i = 0; i < value.size() && !body->report->full(); ++i) {
    ReadTool(value[i], (*ordered)[i], fmt::format("{}[{}]", field, i), body);
  }
  return {};
}

Status ReadToolChoice(const json& value, const std::string& field, Body* body) {
  if (!value.is_object()) {
    return Mismatch(value, field,
                    R"({"type": "auto"}, {"type": "any"}, {"type": "none"} or )"
                    R"({"type": "tool", "name"})");
  }
  const json& type = Member(value, "type");
  const bool names = type == "tool";
  if (names) {
    const json& name = Member(value, "name");
    if (!name.is_string() || name == "") {
      return Mismatch(name, field + ".name", "the name of a tool");
    }
    body->tool_name = name.get<std::string>();
    body->tool_choice = "function";
  } else if (type == "any") {
    body->tool_choice = "required";
  } else if (type == "auto" || type == "none") {
    body->tool_choice = type.get<std::string>();
  } else {
    return Mismatch(type, field + ".type", R"("auto", "any", "tool" or "none")");
  }
  const std::string_view used[] = {"type", "disable_parallel_tool_use", "name"};
  ReportOthers(value, "tool_choice.", field, std::span(used).first(names ? 3 : 2), body->report);
  const json& alone = Member(value, "disable_parallel_tool_use");
  if (alone.is_null()) return {};
  const StatusOr<bool> one = ReadBool(alone, field + ".disable_parallel_tool_use");
  if (!one.ok()) return one.status();
  body->parallel_tool_calls = !*one;
  return {};
}

// --- The form of the answer.

// {"type": "json_schema", "schema"}, at `path`.
Status ReadForm(const json& value, std::vector<std::string_view> path, Body* body) {
  const std::string field = fmt::format("{}", fmt::join(path, "."));
  if (!value.is_object()) return Mismatch(value, field, R"({"type": "json_schema", "schema"})");
  const json& type = Member(value, "type");
  if (type != "json_schema") {
    return type.is_string() ? SupportsOnly(field + ".type", "\"json_schema\"")
                            : Mismatch(type, field + ".type", "\"json_schema\"");
  }
  constexpr std::string_view kUsed[] = {"type", "schema"};
  ReportOthers(value, field + ".", field, kUsed, body->report);
  path.emplace_back("schema");
  return ReadSchema(Member(value, "schema"), path, body);
}

Status ReadOutputConfig(const json& value, const std::string& field, Body* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  constexpr std::string_view kUsed[] = {"effort", "format"};
  ReportOthers(value, "output_config.", field, kUsed, body->report);
  const json& effort = Member(value, "effort");
  if (!effort.is_null()) {
    body->report->Add(Store(ReadString(effort, field + ".effort"), &body->reasoning_effort));
  }
  const json& format = Member(value, "format");
  return format.is_null() ? Status() : ReadForm(format, {field, "format"}, body);
}

// An older name of output_config.format.
Status ReadOutputFormat(const json& value, const std::string& field, Body* body) {
  return ReadForm(value, {field}, body);
}

// What a client asks to leave out of a long prompt is left in: the model is told more, not less.
Status ReadContextManagement(const json& value, const std::string& field, Body* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  constexpr std::string_view kUsed[] = {"edits"};
  ReportOthers(value, "context_management.", field, kUsed, body->report);
  const json& edits = Member(value, "edits");
  if (!edits.is_null() && !edits.is_array()) {
    return Mismatch(edits, field + ".edits", "a list of edits");
  }
  for (size_t i = 0; i < edits.size() && !body->report->full(); ++i) {
    const std::string_view type = base::Text(Member(edits[i], "type"));
    if (type.starts_with("clear_")) continue;
    body->report->Add(Unsupported(fmt::format("{}.edits[{}]", field, i),
                                  "; only those that clear thoughts or calls are accepted, and "
                                  "nothing is cleared"));
  }
  return {};
}

// --- The body as a whole.

void FinishBody(Body* body, bool counts, FieldReport* report) {
  if (!counts && !body->request.max_tokens && !body->to_context_end) {
    report->AddTogether(InvalidArgument("'max_tokens' is required.", "max_tokens"));
  }
  // A prompt is in the cache once a token behind it is computed, which is not shown.
  body->only_caches = body->request.max_tokens == 0;
  if (body->only_caches) body->request.max_tokens = 1;
  if (!body->has_messages) {
    return report->AddTogether(InvalidArgument("'messages' is required.", "messages"));
  }
  if (!body->system.content.empty()) {
    body->messages.insert(body->messages.begin(), std::move(body->system));
  }
  // An answer that the client has begun.
  if (!body->messages.empty() && body->messages.back().role == "assistant") {
    body->continue_final_message = true;
    if (!body->messages.back().tool_calls.empty()) {
      report->AddTogether(InvalidArgument(
          "'messages' ends with a tool_use; a tool_result with its id must follow.", "messages"));
    }
  }
  Chat chat = TakeChat(body, report);
  SetToolChoice(*body, &chat, report);
  body->prompts.emplace_back(std::move(chat));
}

void Replace(std::string_view words, std::string_view by, std::string* text) {
  const size_t at = text->find(words);
  if (at != text->npos) text->replace(at, words.size(), by);
}

// A fault of a chat's tool, as it is called here.
Status InAnthropic(const Status& fault) {
  const Status flat = WithFlatTools(fault);
  if (!flat.field().starts_with("tools[")) return flat;
  std::string message = flat.message();
  std::string field = flat.field();
  Replace(".parameters", ".input_schema", &message);
  Replace(".parameters", ".input_schema", &field);
  return {flat.code(), std::move(message), std::move(field)};
}

}  // namespace

ApiError InAnthropic(ApiError error) {
  const Status own = InAnthropic(InvalidArgument(error.message, error.param));
  error.message = own.message();
  error.param = own.field();
  // By this code clients find out that they must send the whole conversation.
  if (error.param == "thread") error.code = "thread_unsupported_request";
  // By these words agents find out that they must shorten the conversation.
  if (error.code == "context_length_exceeded") error.message.insert(0, "prompt is too long: ");
  return error;
}

const FieldTable<OpenAiBody>& Fields() {
  static const FieldTable<OpenAiBody> table = [] {
    FieldReaders<OpenAiBody> own = ChatReaders<OpenAiBody>();
    for (const char* of_chats : {"messages", "tools", "thinking", "reasoning_effort",
                                 "add_generation_prompt", "continue_final_message"}) {
      own.erase(of_chats);
    }
    own.insert({{"messages", Own(ReadMessageList)},
                {"system", Own(ReadSystemField)},
                {"stop_sequences", Own(ReadStopSequences)},
                {"metadata", Own(ReadMetadata)},
                {"service_tier", Own(ReadServiceTier)},
                {"thinking", Own(ReadThinking)},
                {"tools", Own(ReadTools)},
                {"tool_choice", Own(ReadToolChoice)},
                {"output_config", Own(ReadOutputConfig)},
                {"output_format", Own(ReadOutputFormat)},
                {"context_management", Own(ReadContextManagement)}});
    FieldTable<OpenAiBody> all = WithOpenAiFields(kAnthropic, std::move(own));
    for (const char* of_others :
         {"n", "stop", "stream_options", "prompt_logprobs", "response_format", "store",
          "background", "ropeway_gateway", "max_completion_tokens", "max_output_tokens",
          "num_predict", "n_predict"}) {
      all.readers.erase(of_others);
    }
    return all;
  }();
  return table;
}

Status ReadBody(std::string_view text, const BodyLimits& limits, bool counts, Body* body) {
  const auto finish = [=](FieldReport* report) { FinishBody(body, counts, report); };
  return InAnthropic(ReadOpenAiBody(text, limits, Fields(), "", finish, body));
}

}  // namespace ropeway::api::anthropic
