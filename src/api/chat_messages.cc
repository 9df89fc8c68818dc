#include "api/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/json.h"
#include "api/ordered_messages.h"
#include "base/chat_size.h"
#include "base/json.h"

namespace ropeway::api {
namespace {

using base::Member;
using nlohmann::json;

constexpr std::string_view kPartFields[] = {"type", "text"};
constexpr std::string_view kMessageFields[] = {
    "role", "content", "name", "tool_call_id", "tool_calls", "reasoning_content", "reasoning"};
constexpr std::string_view kCallFields[] = {"id", "type", "function"};
constexpr std::string_view kCalledFields[] = {"name", "arguments"};
constexpr char kBadArguments[] = "INVALID_JSON";  // As agents' frameworks write them themselves.

StatusOr<std::string> ReadTextPart(const json& part, const std::string& at, FieldReport* report) {
  if (!part.is_object()) return Mismatch(part, at, "an object");
  if (Member(part, "type") != "text") {
    return SupportsOnly(at + ".type", "\"text\"");
  }
  ReportOthers(part, "messages[].content[].", at, kPartFields, report);
  return ReadString(Member(part, "text"), at + ".text");
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

Status OnlyOf(const char* role, const std::string& field) {
  return InvalidArgument(
      fmt::format("'{}' is allowed only in a message of the role '{}'.", field, role), field);
}

Status CheckMessage(const ChatMessage& message, const std::string& at) {
  if (message.role == "function" && message.name.empty()) {
    return InvalidArgument(
        fmt::format("'{}.name' is required in a message of the role 'function'.", at),
        at + ".name");
  }
  if (message.role != "tool" && !message.tool_call_id.empty()) {
    return OnlyOf("tool", at + ".tool_call_id");
  }
  if (message.role != "assistant" && !message.tool_calls.empty()) {
    return OnlyOf("assistant", at + ".tool_calls");
  }
  return {};
}

// Reads the messages of one chat, in order. Puts faults into the report.
class MessageReader {
 public:
  MessageReader(std::string field, const BodySource& source)
      : field_(std::move(field)), report_(source.report), ordered_(field_, source) {}

  ChatMessage Read(const json& value, size_t index) {
    const std::string at = fmt::format("{}[{}]", field_, index);
    ChatMessage message;
    if (!value.is_object()) {
      report_->Add(Mismatch(value, at, "an object"));
      return message;
    }
    report_->Add(Store(ReadRole(Member(value, "role"), at + ".role"), &message.role));
    const json& content = Member(value, "content");
    // An assistant's message may consist of other fields alone.
    if (!content.is_null() || message.role != "assistant") {
      ReadContent(content, at + ".content", &message);
    }
    message.name = ReadTextMember(value, "name", at, report_);
    message.tool_call_id = ReadTextMember(value, "tool_call_id", at, report_);
    message.reasoning_content = ReadThoughts(value, at);
    ReadCalls(value, index, at + ".tool_calls", &message.tool_calls);
    if (!message.role.empty()) {
      report_->AddTogether(CheckMessage(message, at));
      report_->AddTogether(CheckAnswer(message, at), {field_});
    }
    for (const ToolCall& call : message.tool_calls) calls_.insert(call.id);
    ReportOthers(value, "messages[].", at, kMessageFields, report_);
    return message;
  }

 private:
  void ReadContent(const json& content, const std::string& at, ChatMessage* message) {
    if (content.is_string()) {
      message->content = content.get<std::string>();
      return;
    }
    if (!content.is_array()) {
      report_->Add(Mismatch(content, at, "a string or a list of text parts"));
    }
    for (size_t i = 0; content.is_array() && i < content.size() && !report_->full(); ++i) {
      if (i > 0) message->content += '\n';
      std::string part;
      report_->Add(Store(ReadTextPart(content[i], fmt::format("{}[{}]", at, i), report_), &part));
      message->content += part;
      message->part_sizes.push_back(part.size());
    }
  }

  // Servers call them by either name, and some by both.
  std::string ReadThoughts(const json& message, const std::string& at) {
    std::string thoughts = ReadTextMember(message, "reasoning_content", at, report_);
    std::string reasoning = ReadTextMember(message, "reasoning", at, report_);
    if (thoughts.empty()) return reasoning;
    if (!reasoning.empty() && reasoning != thoughts) {
      const std::string field = at + ".reasoning";
      report_->Add(InvalidArgument(
          fmt::format("'{}' and '{}.reasoning_content' differ; give one of them.", field, at),
          field));
    }
    return thoughts;
  }

  void ReadCalls(const json& message, size_t index, const std::string& at,
                 std::vector<ToolCall>* calls) {
    const json& list = Member(message, "tool_calls");
    if (list.is_null()) return;
    if (!list.is_array()) return report_->Add(Mismatch(list, at, "a list of tool calls"));
    for (size_t i = 0; i < list.size() && !report_->full(); ++i) {
      const std::string path = fmt::format("{}[{}]", at, i);
      ToolCall call;
      if (!list[i].is_object()) {
        report_->Add(Mismatch(list[i], path, "an object"));
        continue;
      }
      const json& type = Member(list[i], "type");
      if (!type.is_null() && type != "function") {
        report_->Add(SupportsOnly(path + ".type", "\"function\""));
        continue;
      }
      call.id = ReadTextMember(list[i], "id", path, report_);
      ReadCalled(Member(list[i], "function"), index, i, path + ".function", &call);
      ReportOthers(list[i], "messages[].tool_calls[].", path, kCallFields, report_);
      calls->push_back(std::move(call));
    }
  }

  void ReadCalled(const json& function, size_t index, size_t call_index, const std::string& at,
                  ToolCall* call) {
    if (!function.is_object()) return report_->Add(Mismatch(function, at, "an object"));
    const std::string name = at + ".name";
    report_->Add(Store(ReadString(Member(function, "name"), name), &call->name));
    const json& given = Member(function, "name");
    if (given == "") report_->Add(Mismatch(given, name, "the name of a tool"));
    const json& arguments = Member(function, "arguments");
    report_->Add(Store(arguments.is_object() ? TextOf(index, call_index)
                                             : ReadCallArguments(arguments, at + ".arguments"),
                       &call->arguments));
    ReportOthers(function, "messages[].tool_calls[].function.", at, kCalledFields, report_);
  }

  // The arguments of a call that are no text, in the order in which they were sent.
  StatusOr<std::string> TextOf(size_t index, size_t call_index) {
    StatusOr<const nlohmann::ordered_json*> calls = ordered_.List(index, "tool_calls");
    if (!calls.ok()) return calls.status();
    return DumpJson((*calls)->at(call_index).at("function").at("arguments"));
  }

  Status CheckAnswer(const ChatMessage& message, const std::string& at) const {
    if (message.role != "tool" || calls_.contains(message.tool_call_id)) return {};
    const std::string field = at + ".tool_call_id";
    if (message.tool_call_id.empty()) {
      return InvalidArgument(
          fmt::format("'{}' is required in a message of the role 'tool'.", field), field);
    }
    return InvalidArgument(
        fmt::format("'{}' is '{}', but no message before it has a tool call of this id.", field,
                    ShownName(message.tool_call_id)),
        field);
  }

  const std::string field_;
  FieldReport* const report_;
  std::set<std::string, std::less<>> calls_;  // The ids of all so far; "" of those without one.
  OrderedMessages ordered_;
};

}  // namespace

void ReportOthers(const json& object, std::string_view parent, const std::string& at,
                  std::span<const std::string_view> used, FieldReport* report) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(used, name) != used.end()) continue;
    report->AddOther(parent, name, value, at + "." + ShownName(name), used);
  }
}

std::string ReadTextMember(const json& object, const char* name, const std::string& at,
                           FieldReport* report) {
  const json& value = Member(object, name);
  std::string text;
  if (!value.is_null()) report->Add(Store(ReadString(value, at + "." + name), &text));
  return text;
}

StatusOr<std::string> ReadCallArguments(const json& value, const std::string& at) {
  // A tool without parameters, as some write it.
  if (value.is_null() || value == "") return std::string("{}");
  StatusOr<std::string> text = ReadString(value, at);
  if (!text.ok()) return Mismatch(value, at, "a JSON object, as text");
  // A call may have been cut or written badly. Agents send it back to the model with what is
  // wrong with it, and templates need an object.
  const StatusOr<json> object = base::ReadJson(*text, base::kChatJsonBounds, "the text");
  if (!object.ok() || !object->is_object()) return DumpJson(json{{kBadArguments, *text}});
  return text;
}

StatusOr<std::vector<ChatMessage>> ReadChatMessages(const json& value, const std::string& field,
                                                    const BodySource& source) {
  if (!value.is_array()) return Mismatch(value, field, "a list of messages");
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  MessageReader reader(field, source);
  std::vector<ChatMessage> messages;
  messages.reserve(value.size());
  for (size_t i = 0; i < value.size() && !source.report->full(); ++i) {
    messages.push_back(reader.Read(value[i], i));
  }
  return messages;
}

}  // namespace ropeway::api
