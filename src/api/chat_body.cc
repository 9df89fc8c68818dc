#include "api/chat_body.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/chat_messages.h"
#include "api/json.h"
#include "base/json.h"
#include "core/request_check.h"

namespace ropeway::api {
namespace {

using base::Member;
using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

Status ReadMessages(const json& value, const std::string& field, ChatDraft* draft) {
  draft->has_messages = true;
  return Store(ReadChatMessages(value, field, *draft), &draft->messages);
}

// --- Tools.

constexpr std::string_view kToolFields[] = {"type", "function"};
// Of a flat tool the first as well.
constexpr std::string_view kFunctionFields[] = {"type", "name", "description", "parameters",
                                                "strict"};

// `ordered`: the same function, with its keys in order.
void ReadFunction(const json& value, const OrderedJson& ordered, const std::string& at, bool nested,
                  FieldReport* report, Tool* tool) {
  const json& name = Member(value, "name");
  report->Add(name.is_null()
                  ? InvalidArgument(fmt::format("'{}.name' is missing.", at), at + ".name")
                  : Store(ReadString(name, at + ".name"), &tool->name));
  tool->description = ReadTextMember(value, "description", at, report);
  const json& parameters = Member(value, "parameters");
  if (parameters.is_object()) {
    tool->parameters = DumpJson(ordered["parameters"]);
  } else if (!parameters.is_null()) {
    report->Add(Mismatch(parameters, at + ".parameters", "a JSON Schema: an object"));
  }
  const json& strict = Member(value, "strict");
  if (!strict.is_null()) report->Add(Store(ReadBool(strict, at + ".strict"), &tool->strict));
  const std::span<const std::string_view> used = kFunctionFields;
  ReportOthers(value, nested ? "tools[].function." : "tools[].", at, used.subspan(nested ? 1 : 0),
               report);
}

void ReadFlatTool(const json& value, const OrderedJson& ordered, const std::string& at,
                  ChatDraft* draft) {
  // As chats have it.
  if (value.contains("function") && !value.contains("name")) {
    return draft->report->Add(InvalidArgument(
        fmt::format("'{}.name' is missing; 'name', 'description' and 'parameters' stand beside "
                    "'type', not under 'function'.",
                    at),
        at + ".name"));
  }
  Tool& tool = draft->tools.emplace_back();
  ReadFunction(value, ordered, at, /*nested=*/false, draft->report, &tool);
}

Status ReadTools(const json& value, const std::string& field, ChatDraft* draft) {
  if (!value.is_array()) return Mismatch(value, field, "a list of tools");
  if (value.empty()) return {};
  const StatusOr<OrderedJson> ordered =
      base::ReadOrderedMember(draft->text, {field}, draft->bounds, "the list of tools");
  if (!ordered.ok()) return InvalidArgument(field + ": " + ordered.status().message(), field);
  FieldReport* const report = draft->report;
  for (size_t i = 0; i < value.size() && !report->full(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    if (!value[i].is_object()) {
      report->Add(Mismatch(value[i], at, "an object"));
      continue;
    }
    const json& type = Member(value[i], "type");
    if (!type.is_null() && type != "function") {
      report->Add(SupportsOnly(at + ".type", "\"function\""));
      continue;
    }
    if (draft->tool_form == ToolForm::kFlat) {
      ReadFlatTool(value[i], (*ordered)[i], at, draft);
      continue;
    }
    const json& function = Member(value[i], "function");
    // As other APIs have tools.
    if (function.is_null() && (value[i].contains("name") || value[i].contains("input_schema"))) {
      report->Add(InvalidArgument(
          fmt::format("'{}.function' is missing; 'name', 'description' and 'parameters' of a tool "
                      "belong under it{}.",
                      at,
                      value[i].contains("input_schema") ? " ('input_schema' as 'parameters')" : ""),
          at + ".function"));
      continue;
    }
    if (function.is_object()) {
      Tool& tool = draft->tools.emplace_back();
      ReadFunction(function, (*ordered)[i]["function"], at + ".function", /*nested=*/true, report,
                   &tool);
    } else {
      report->Add(Mismatch(function, at + ".function", "an object"));
    }
    ReportOthers(value[i], "tools[].", at, kToolFields, report);
  }
  return {};
}

// --- Variables of the chat template.

Status ReadTemplateArguments(const json& value, const std::string& field, ChatDraft* draft) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  if (value.empty()) return {};
  const StatusOr<OrderedJson> ordered =
      base::ReadOrderedMember(draft->text, {field}, draft->bounds, "the object");
  if (!ordered.ok()) return InvalidArgument(field + ": " + ordered.status().message(), field);
  draft->template_arguments = DumpJson(*ordered);
  return {};
}

// true, false, or as hosted models have it {"type": "enabled"}.
Status ReadThinking(const json& value, const std::string& field, ChatDraft* draft) {
  if (value.is_boolean()) {
    draft->thinking = value.get<bool>();
    return {};
  }
  const json& type = Member(value, "type");
  if (type != "enabled" && type != "disabled") {
    return Mismatch(value, field, R"(true, false, {"type": "enabled"} or {"type": "disabled"})");
  }
  draft->thinking = type == "enabled";
  constexpr std::string_view kUsed[] = {"type"};
  ReportOthers(value, "thinking.", field, kUsed, draft->report);
  return {};
}

constexpr char kArguments[] = "chat_template_kwargs";

// Sets a variable by the field `field`; the object that sets all may say the same.
void SetVariable(const char* name, OrderedJson value, const char* field, OrderedJson* arguments,
                 FieldReport* report) {
  if (!arguments->contains(name)) {
    (*arguments)[name] = std::move(value);
    return;
  }
  if ((*arguments)[name] == value) return;
  report->AddTogether(InvalidArgument(fmt::format("'{}' and '{}.{}' differ; give one of them.",
                                                  field, kArguments, name),
                                      field),
                      {kArguments});
}

// The variables that all fields set together, as JSON.
std::string Arguments(const ChatDraft& draft, FieldReport* report) {
  OrderedJson arguments = OrderedJson::object();
  if (!draft.template_arguments.empty()) {
    // It was read under these bounds before. The library's own reader would compare each key with
    // all others.
    StatusOr<OrderedJson> read =
        base::ReadOrderedJson(draft.template_arguments, draft.bounds, "the object");
    if (read.ok()) {
      arguments = *std::move(read);
    } else {
      report->Add(
          InvalidArgument(std::string(kArguments) + ": " + read.status().message(), kArguments));
    }
  }
  if (draft.enable_thinking && draft.thinking && *draft.enable_thinking != *draft.thinking) {
    report->AddTogether(
        InvalidArgument("'thinking' and 'enable_thinking' differ; give one of them.", "thinking"),
        {"enable_thinking"});
  }
  if (draft.enable_thinking) {
    SetVariable("enable_thinking", *draft.enable_thinking, "enable_thinking", &arguments, report);
  }
  // Templates know it by either name.
  if (draft.thinking) {
    SetVariable("thinking", *draft.thinking, "thinking", &arguments, report);
    SetVariable("enable_thinking", *draft.thinking, "thinking", &arguments, report);
  }
  if (draft.reasoning_effort) {
    SetVariable("reasoning_effort", *draft.reasoning_effort, "reasoning_effort", &arguments,
                report);
    if (*draft.reasoning_effort == "none" && !arguments.contains("enable_thinking")) {
      arguments["enable_thinking"] = false;
    }
  }
  return arguments.empty() ? std::string() : DumpJson(arguments);
}

constexpr ChatField kRows[] = {
    {"messages", ReadMessages},
    {"tools", ReadTools},
    {kArguments, ReadTemplateArguments},
    {"reasoning_effort",
     [](const json& value, const std::string& field, ChatDraft* draft) {
       return Store(ReadString(value, field), &draft->reasoning_effort);
     }},
    {"enable_thinking",
     [](const json& value, const std::string& field, ChatDraft* draft) {
       return Store(ReadBool(value, field), &draft->enable_thinking);
     }},
    {"thinking", ReadThinking},
    {"add_generation_prompt",
     [](const json& value, const std::string& field, ChatDraft* draft) {
       return Store(ReadBool(value, field), &draft->add_generation_prompt);
     }},
    {"continue_final_message",
     [](const json& value, const std::string& field, ChatDraft* draft) {
       return Store(ReadBool(value, field), &draft->continue_final_message);
     }},
};

void CutOut(std::string_view words, std::string* text) {
  const size_t at = text->find(words);
  if (at != text->npos) text->erase(at, words.size());
}

}  // namespace

Status WithFlatTools(const Status& fault) {
  constexpr std::string_view kNest = ".function";
  if (!fault.field().starts_with("tools[")) return fault;
  std::string message = fault.message();
  std::string field = fault.field();
  CutOut(kNest, &message);
  CutOut(kNest, &field);
  Status flat(fault.code(), std::move(message), std::move(field));
  flat.set_api_code(fault.api_code());
  return flat;
}

std::span<const ChatField> ChatFieldRows() { return kRows; }

Chat TakeChat(ChatDraft* draft, FieldReport* report) {
  Chat chat;
  chat.messages = std::move(draft->messages);
  chat.tools = std::move(draft->tools);
  chat.template_arguments = Arguments(*draft, report);
  chat.continue_final_message = draft->continue_final_message;
  // An answer that goes on with a message begins no other.
  chat.add_generation_prompt =
      draft->add_generation_prompt.value_or(!draft->continue_final_message);
  Status fault = core::CheckChat(chat);
  if (draft->tool_form == ToolForm::kFlat) fault = WithFlatTools(fault);
  report->AddTogether(fault, {"messages", "tools", "add_generation_prompt"});
  return chat;
}

}  // namespace ropeway::api
