#include "api/ollama_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "api/chat_messages.h"
#include "api/json.h"
#include "api/ordered_messages.h"

namespace ropeway::api {
namespace {

using base::Member;
using nlohmann::json;

constexpr std::string_view kOllamaMessageFields[] = {"role",       "content",   "thinking",
                                                     "tool_calls", "tool_name", "tool_call_id"};
constexpr std::string_view kOllamaCallFields[] = {"id", "function"};
constexpr std::string_view kOllamaCalledFields[] = {"name", "arguments"};

StatusOr<std::string> ReadOllamaRole(const json& value, const std::string& at) {
  StatusOr<std::string> role = ReadString(value, at);
  if (!role.ok()) return role.status();
  for (char& c : *role) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const char* known : {"system", "user", "assistant", "tool"}) {
    if (*role == known) return role;
  }
  return InvalidArgument(
      fmt::format("'{}' must be one of system, user, assistant and tool, but is '{}'.", at,
                  ShownName(*role)),
      at);
}

Status OnlyOfOllama(const char* role, const std::string& field) {
  return InvalidArgument(
      fmt::format("'{}' is allowed only in a message of the role '{}'.", field, role), field);
}

// The calls of the messages so far, by which tools' messages find theirs.
class OllamaCalls {
 public:
  // Notes a call, and gives it an id where it has none.
  void Add(ToolCall* call) {
    if (call->id.empty()) {
      do {
        call->id = fmt::format("call_{}", count_++);
      } while (ids_.contains(call->id));
    }
    ids_.insert(call->id);
    by_name_[call->name].push_back(order_);
    open_.emplace(order_++, call->id);
  }

  bool Has(const std::string& id) const { return ids_.contains(id); }
  // The call of this id is answered.
  void Answer(const std::string& id) { answered_.insert(id); }

  // The id of the first call of `name` that is not answered, which it is now; "": of any tool.
  // Where there is none, "".
  std::string Next(const std::string& name) {
    if (!name.empty()) {
      const auto found = by_name_.find(name);
      return found == by_name_.end() ? std::string() : TakeFrom(&found->second);
    }
    while (!open_.empty()) {
      std::string id = std::move(open_.begin()->second);
      open_.erase(open_.begin());
      if (answered_.insert(id).second) return id;
    }
    return {};
  }

 private:
  std::string TakeFrom(std::deque<size_t>* places) {
    while (!places->empty()) {
      const auto open = open_.find(places->front());
      places->pop_front();
      if (open == open_.end()) continue;
      std::string id = std::move(open->second);
      open_.erase(open);
      if (answered_.insert(id).second) return id;
    }
    return {};
  }

  std::set<std::string, std::less<>> ids_;
  std::set<std::string, std::less<>> answered_;
  std::map<size_t, std::string> open_;                 // By its place in the order, the id.
  std::map<std::string, std::deque<size_t>> by_name_;  // The places of its calls.
  size_t order_ = 0;
  size_t count_ = 0;  // Of the ids that were made.
};

// Reads the messages of one chat, in order. Puts faults into the report.
class OllamaMessageReader {
 public:
  OllamaMessageReader(std::string field, const BodySource& source)
      : field_(std::move(field)), report_(source.report), ordered_(field_, source) {}

  ChatMessage Read(const json& value, size_t index) {
    const std::string at = fmt::format("{}[{}]", field_, index);
    ChatMessage message;
    if (!value.is_object()) {
      report_->Add(Mismatch(value, at, "an object"));
      return message;
    }
    report_->Add(Store(ReadOllamaRole(Member(value, "role"), at + ".role"), &message.role));
    message.content = ReadTextMember(value, "content", at, report_);
    message.reasoning_content = ReadTextMember(value, "thinking", at, report_);
    ReadCalls(value, index, at + ".tool_calls", &message.tool_calls);
    ReadAnswered(value, at, &message);
    ReportOthers(value, "messages[].", at, kOllamaMessageFields, report_);
    return message;
  }

 private:
  void ReadAnswered(const json& value, const std::string& at, ChatMessage* message) {
    std::string id = ReadTextMember(value, "tool_call_id", at, report_);
    message->name = ReadTextMember(value, "tool_name", at, report_);
    if (message->role.empty()) return;
    if (message->role != "assistant" && !message->tool_calls.empty()) {
      report_->Add(OnlyOfOllama("assistant", at + ".tool_calls"));
    }
    if (message->role != "tool") {
      if (!id.empty()) report_->Add(OnlyOfOllama("tool", at + ".tool_call_id"));
      if (!message->name.empty()) report_->Add(OnlyOfOllama("tool", at + ".tool_name"));
      return;
    }
    if (id.empty()) {
      message->tool_call_id = calls_.Next(message->name);
      return;
    }
    if (!calls_.Has(id)) {
      report_->Add(InvalidArgument(
          fmt::format("'{}.tool_call_id' is '{}', but no message before it has a tool call of "
                      "this id.",
                      at, ShownName(id)),
          at + ".tool_call_id"));
    }
    calls_.Answer(id);
    message->tool_call_id = std::move(id);
  }

  void ReadCalls(const json& message, size_t index, const std::string& at,
                 std::vector<ToolCall>* calls) {
    const json& list = Member(message, "tool_calls");
    if (list.is_null()) return;
    if (!list.is_array()) return report_->Add(Mismatch(list, at, "a list of tool calls"));
    for (size_t i = 0; i < list.size() && !report_->full(); ++i) {
      const std::string path = fmt::format("{}[{}]", at, i);
      if (!list[i].is_object()) {
        report_->Add(Mismatch(list[i], path, "an object"));
        continue;
      }
      ToolCall call;
      call.id = ReadTextMember(list[i], "id", path, report_);
      ReadCalled(Member(list[i], "function"), index, i, path + ".function", &call);
      ReportOthers(list[i], "messages[].tool_calls[].", path, kOllamaCallFields, report_);
      calls_.Add(&call);
      calls->push_back(std::move(call));
    }
  }

  void ReadCalled(const json& function, size_t index, size_t call_index, const std::string& at,
                  ToolCall* call) {
    if (!function.is_object()) return report_->Add(Mismatch(function, at, "an object"));
    const json& name = Member(function, "name");
    report_->Add(name == "" ? Mismatch(name, at + ".name", "the name of a tool")
                            : Store(ReadString(name, at + ".name"), &call->name));
    const json& arguments = Member(function, "arguments");
    if (arguments.is_object()) {
      report_->Add(Store(ArgumentsOf(index, call_index), &call->arguments));
    } else if (arguments.is_null() || arguments.is_string()) {
      report_->Add(Store(ReadCallArguments(arguments, at + ".arguments"), &call->arguments));
    } else {
      report_->Add(Mismatch(arguments, at + ".arguments", "an object"));
    }
    ReportOthers(function, "messages[].tool_calls[].function.", at, kOllamaCalledFields, report_);
  }

  // The arguments of a call as text, in the order in which they were sent.
  StatusOr<std::string> ArgumentsOf(size_t index, size_t call_index) {
    StatusOr<const nlohmann::ordered_json*> calls = ordered_.List(index, "tool_calls");
    if (!calls.ok()) return calls.status();
    return DumpJson((*calls)->at(call_index).at("function").at("arguments"));
  }

  const std::string field_;
  FieldReport* const report_;
  OllamaCalls calls_;
  OrderedMessages ordered_;
};

}  // namespace

StatusOr<std::vector<ChatMessage>> ReadOllamaMessages(const json& value, const std::string& field,
                                                      const BodySource& source) {
  if (!value.is_array()) return Mismatch(value, field, "a list of messages");
  OllamaMessageReader reader(field, source);
  std::vector<ChatMessage> messages;
  messages.reserve(value.size());
  for (size_t i = 0; i < value.size() && !source.report->full(); ++i) {
    messages.push_back(reader.Read(value[i], i));
  }
  return messages;
}

}  // namespace ropeway::api
