#include "api/tool_choice.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "api/chat_messages.h"
#include "api/json.h"
#include "base/json.h"

namespace ropeway::api {
namespace {

using base::Member;
using nlohmann::json;

// The name of a tool in {"type": "function", "function": {"name"}} or {"type": "function", "name"},
// which is at `at`.
StatusOr<std::string> ReadToolName(const json& value, const std::string& at, OpenAiBody* body) {
  const bool nested = body->tool_form == ToolForm::kNested;
  const std::string inner = nested ? at + ".function" : at;
  const json& function = nested ? Member(value, "function") : value;
  if (!function.is_object()) return Mismatch(function, inner, "an object with the tool's \"name\"");
  const json& name = Member(function, "name");
  if (!name.is_string() || name == "") return Mismatch(name, inner + ".name", "the name of a tool");
  const std::string_view used[] = {"type", nested ? "function" : "name"};
  ReportOthers(value, "tool_choice.", at, used, body->report);
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

using Names = std::set<std::string_view>;

Status NoneOfTheTools(const std::string& field, const std::string& name) {
  return InvalidArgument(
      fmt::format("'{}' is '{}', which is none of 'tools'.", field, ShownName(name)), field);
}

// Leaves the model only the tools that it may call.
void KeepAllowedTools(const OpenAiBody& body, const Names& names, Chat* chat, FieldReport* report) {
  const bool nested = body.tool_form == ToolForm::kNested;
  const std::vector<std::string>& allowed = body.allowed_tools;
  for (size_t i = 0; i < allowed.size() && !report->full(); ++i) {
    if (names.contains(allowed[i])) continue;
    report->AddTogether(
        NoneOfTheTools(nested ? fmt::format("tool_choice.allowed_tools.tools[{}].function.name", i)
                              : fmt::format("tool_choice.tools[{}].name", i),
                       allowed[i]),
        {"tools"});
  }
  const Names kept(allowed.begin(), allowed.end());
  std::erase_if(chat->tools, [&](const Tool& tool) { return !kept.contains(tool.name); });
}

}  // namespace

Status ReadToolChoice(const json& value, const std::string& field, OpenAiBody* body) {
  const bool nested = body->tool_form == ToolForm::kNested;
  const json& type = Member(value, "type");
  if (type == "allowed_tools") {
    if (!nested) return ReadAllowedTools(value, field, body);
    return ReadAllowedTools(Member(value, "allowed_tools"), field + ".allowed_tools", body);
  }
  if (type == "function") {
    body->tool_choice = "function";
    return Store(ReadToolName(value, field, body), &body->tool_name);
  }
  if (value != "none" && value != "auto" && value != "required") {
    return Mismatch(
        value, field,
        nested ? R"("none", "auto", "required", {"type": "function", "function": {"name"}} or )"
                 R"({"type": "allowed_tools", "allowed_tools": {"mode", "tools"}})"
               : R"("none", "auto", "required", {"type": "function", "name"} or )"
                 R"({"type": "allowed_tools", "mode", "tools"})");
  }
  body->tool_choice = value.get<std::string>();
  return {};
}

void SetToolChoice(const OpenAiBody& body, Chat* chat, FieldReport* report) {
  const std::string& choice = body.tool_choice;
  // A tool that is named is called once, as at OpenAI: its arguments are the answer.
  chat->parallel_tool_calls = body.parallel_tool_calls && body.tool_name.empty();
  if (chat->tools.empty()) {
    if (choice == "required" || choice == "function") {
      report->AddTogether(
          InvalidArgument("'tool_choice' needs 'tools' to be called.", "tool_choice"), {"tools"});
    }
    return;
  }
  if (choice == "none") chat->tool_choice = ToolChoice::kNone;
  if (choice == "required" || choice == "function") chat->tool_choice = ToolChoice::kRequired;
  chat->tool_name = body.tool_name;
  Names names;
  for (const Tool& tool : chat->tools) names.insert(tool.name);
  if (!body.tool_name.empty() && !names.contains(body.tool_name)) {
    report->AddTogether(
        NoneOfTheTools(
            body.tool_form == ToolForm::kNested ? "tool_choice.function.name" : "tool_choice.name",
            body.tool_name),
        {"tools"});
  }
  if (!body.allowed_tools.empty()) KeepAllowedTools(body, names, chat, report);
}

}  // namespace ropeway::api
