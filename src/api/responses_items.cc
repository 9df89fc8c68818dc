#include "api/responses_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/chat_messages.h"
#include "api/json.h"
#include "base/json.h"

namespace ropeway::api {
namespace {

using base::Member;
using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using ItemKind = InputItem::Kind;

constexpr char kKinds[] = R"("message", "reasoning", "function_call" and "function_call_output")";

// Reads one item. Puts faults into the report.
class ItemReader {
 public:
  ItemReader(std::string at, FieldReport* report) : report_(report) { item_.at = std::move(at); }

  InputItem Read(const json& value) {
    if (!value.is_object()) {
      report_->Add(Mismatch(value, item_.at, "an object"));
      return std::move(item_);
    }
    const json& type = Member(value, "type");
    if (type == "message" || (type.is_null() && value.contains("role"))) {
      ReadMessage(value);
    } else if (type == "reasoning") {
      ReadThought(value);
    } else if (type == "function_call") {
      ReadCall(value);
    } else if (type == "function_call_output") {
      ReadCallOutput(value);
    } else if (type.is_string()) {
      report_->Add(SupportsOnly(At("type"), kKinds));
    } else {
      report_->Add(Mismatch(type, At("type"), "the type of an item, such as \"message\""));
    }
    return std::move(item_);
  }

 private:
  std::string At(const char* name) const { return item_.at + "." + name; }

  // The members that all kinds have. `used`: those of this kind.
  OrderedJson Begin(const json& value, const char* type, std::span<const std::string_view> used) {
    ReportOthers(value, "input[].", item_.at, used, report_);
    item_.id = ReadTextMember(value, "id", item_.at, report_);
    std::string status = ReadTextMember(value, "status", item_.at, report_);
    if (status.empty()) status = "completed";
    if (status != "completed" && status != "incomplete" && status != "in_progress") {
      report_->Add(Mismatch(Member(value, "status"), At("status"),
                            R"("completed", "incomplete" or "in_progress")"));
    }
    return {{"type", type}, {"status", std::move(status)}};
  }

  std::string ReadName(const json& value, const char* name, const char* expected) {
    const json& text = Member(value, name);
    if (text.is_string() && text != "") return text.get<std::string>();
    report_->Add(Mismatch(text, At(name), expected));
    return {};
  }

  void Show(const OrderedJson& shown) { item_.members = DumpJson(shown).substr(1); }

  void ReadMessage(const json& value) {
    constexpr std::string_view kUsed[] = {"type", "id", "status", "role", "content"};
    OrderedJson shown = Begin(value, "message", kUsed);
    ChatMessage& message = item_.message;
    const json& role = Member(value, "role");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
      report_->Add(Mismatch(role, At("role"), "user, assistant, system or developer"));
    } else {
      message.role = role == "developer" ? "system" : role.get<std::string>();
      shown["role"] = role.get<std::string>();
    }
    shown["content"] = ReadParts(Member(value, "content"), At("content"),
                                 message.role == "assistant" ? "output_text" : "input_text");
    Show(shown);
  }

  // A text, or a list of texts. Returns the list as it is shown, with parts of the type `type`.
  OrderedJson ReadParts(const json& content, const std::string& at, const char* type) {
    OrderedJson parts = OrderedJson::array();
    const auto add = [&](std::string text) {
      OrderedJson& part =
          parts.emplace_back(OrderedJson{{"type", type}, {"text", std::move(text)}});
      if (type == std::string_view("output_text")) part["annotations"] = OrderedJson::array();
    };
    ChatMessage& message = item_.message;
    if (content.is_string()) {
      message.content = content.get<std::string>();
      add(message.content);
      return parts;
    }
    if (!content.is_array()) {
      report_->Add(Mismatch(content, at, "a string or a list of text parts"));
      return parts;
    }
    for (size_t i = 0; i < content.size() && !report_->full(); ++i) {
      std::string text = ReadPart(content[i], fmt::format("{}[{}]", at, i));
      if (i > 0) message.content += '\n';
      message.content += text;
      message.part_sizes.push_back(text.size());
      add(std::move(text));
    }
    // A text is shown as a list of one: sent back so, it is to be rendered as it was.
    if (message.part_sizes.size() == 1) message.part_sizes.clear();
    return parts;
  }

  std::string ReadPart(const json& part, const std::string& at) {
    std::string text;
    if (!part.is_object()) {
      report_->Add(Mismatch(part, at, "an object"));
      return text;
    }
    const json& type = Member(part, "type");
    if (type != "input_text" && type != "output_text" && type != "text") {
      report_->Add(type.is_string()
                       ? SupportsOnly(at + ".type", R"("input_text" and "output_text")")
                       : Mismatch(type, at + ".type", R"("input_text" or "output_text")"));
      return text;
    }
    constexpr std::string_view kUsed[] = {"type", "text"};
    ReportOthers(part, "input[].content[].", at, kUsed, report_);
    report_->Add(Store(ReadString(Member(part, "text"), at + ".text"), &text));
    return text;
  }

  // Texts of thoughts, joined by newlines; `type` is that of their parts.
  std::string ReadThoughts(const json& list, const char* name, const char* type,
                           OrderedJson* shown) {
    std::string all;
    *shown = OrderedJson::array();
    if (list.is_null()) return all;
    if (!list.is_array()) {
      report_->Add(Mismatch(list, At(name), "a list of texts"));
      return all;
    }
    for (size_t i = 0; i < list.size() && !report_->full(); ++i) {
      const std::string at = fmt::format("{}[{}]", At(name), i);
      std::string text;
      if (Member(list[i], "type") != type) {
        report_->Add(Mismatch(Member(list[i], "type"), at + ".type", fmt::format("\"{}\"", type)));
      } else {
        report_->Add(Store(ReadString(Member(list[i], "text"), at + ".text"), &text));
      }
      if (i > 0) all += '\n';
      all += text;
      shown->push_back({{"type", type}, {"text", std::move(text)}});
    }
    return all;
  }

  void ReadThought(const json& value) {
    constexpr std::string_view kUsed[] = {"type", "id", "status", "summary", "content"};
    item_.kind = ItemKind::kThought;
    item_.message.role = "assistant";
    OrderedJson shown = Begin(value, "reasoning", kUsed);
    std::string summary =
        ReadThoughts(Member(value, "summary"), "summary", "summary_text", &shown["summary"]);
    std::string content =
        ReadThoughts(Member(value, "content"), "content", "reasoning_text", &shown["content"]);
    item_.message.reasoning_content = std::move(content.empty() ? summary : content);
    Show(shown);
  }

  void ReadCall(const json& value) {
    constexpr std::string_view kUsed[] = {"type", "id", "status", "call_id", "name", "arguments"};
    item_.kind = ItemKind::kCall;
    item_.message.role = "assistant";
    OrderedJson shown = Begin(value, "function_call", kUsed);
    ToolCall& call = item_.message.tool_calls.emplace_back();
    shown["call_id"] = call.id = ReadName(value, "call_id", "the id of the call");
    shown["name"] = call.name = ReadName(value, "name", "the name of a function");
    const json& arguments = Member(value, "arguments");
    report_->Add(Store(ReadCallArguments(arguments, At("arguments")), &call.arguments));
    shown["arguments"] = arguments.is_string() ? arguments.get<std::string>() : call.arguments;
    Show(shown);
  }

  void ReadCallOutput(const json& value) {
    constexpr std::string_view kUsed[] = {"type", "id", "status", "call_id", "output", "name"};
    item_.kind = ItemKind::kCallOutput;
    item_.message.role = "tool";
    OrderedJson shown = Begin(value, "function_call_output", kUsed);
    shown["call_id"] = item_.message.tool_call_id =
        ReadName(value, "call_id", "the id of a call before it");
    item_.message.name = ReadTextMember(value, "name", item_.at, report_);
    if (!item_.message.name.empty()) shown["name"] = item_.message.name;
    const json& output = Member(value, "output");
    OrderedJson parts = ReadParts(output, At("output"), "input_text");
    shown["output"] = output.is_string() ? OrderedJson(item_.message.content) : std::move(parts);
    Show(shown);
  }

  FieldReport* const report_;
  InputItem item_;
};

}  // namespace

Status ReadInputItems(const json& value, const std::string& field, FieldReport* report,
                      std::vector<InputItem>* items) {
  if (value.is_string()) {
    if (value == "") return InvalidArgument(fmt::format("'{}' is empty.", field), field);
    const json message = {{"role", "user"}, {"content", value}};
    items->push_back(ItemReader(field, report).Read(message));
    return {};
  }
  if (!value.is_array()) return Mismatch(value, field, "a string or a list of items");
  items->reserve(value.size());
  std::set<std::string, std::less<>> ids;
  for (size_t i = 0; i < value.size() && !report->full(); ++i) {
    items->push_back(ItemReader(fmt::format("{}[{}]", field, i), report).Read(value[i]));
    const InputItem& item = items->back();
    if (item.id.empty() || ids.insert(item.id).second) continue;
    report->Add(InvalidArgument(fmt::format("'{}.id' is '{}', as is that of an item before it.",
                                            item.at, ShownName(item.id)),
                                item.at + ".id"));
  }
  return {};
}

StatusOr<InputItem> ReadShownItem(const std::string& text, const std::string& field) {
  StatusOr<json> value = base::ReadJson(text, {}, "the item");
  if (!value.ok()) return InvalidArgument(field + ": " + value.status().message(), field);
  const BodyLimits limits;
  FieldReport report(kResponses, limits);
  InputItem item = ItemReader(field, &report).Read(*value);
  if (!report.status().ok()) return InvalidArgument(report.status().message(), field);
  return item;
}

std::string_view ItemPrefix(ItemKind kind) {
  switch (kind) {
    case ItemKind::kMessage:
      return "msg_";
    case ItemKind::kThought:
      return "rs_";
    case ItemKind::kCall:
      return "fc_";
    case ItemKind::kCallOutput:
      return "fco_";
  }
  return "msg_";
}

std::string ShowItem(const std::string& id, const InputItem& item) {
  std::string text = "{\"id\":";
  AppendJsonString(id, &text);
  return text + "," + item.members;
}

ChatMessage* ItemMessages::Assistant(bool goes_on) {
  if (!goes_on || messages_.empty() || messages_.back().role != "assistant") {
    messages_.push_back({"assistant", ""});
  }
  return &messages_.back();
}

Status ItemMessages::Add(const InputItem& item) {
  const bool begun = !messages_.empty();
  switch (item.kind) {
    case ItemKind::kMessage: {
      if (item.message.role != "assistant") {
        messages_.push_back(item.message);
        return {};
      }
      const bool said = begun && !messages_.back().content.empty();
      ChatMessage* const message = Assistant(!said);
      message->content = item.message.content;
      message->part_sizes = item.message.part_sizes;
      return {};
    }
    case ItemKind::kThought: {
      const bool only_thought =
          begun && messages_.back().content.empty() && messages_.back().tool_calls.empty();
      std::string* const thoughts = &Assistant(only_thought)->reasoning_content;
      if (!thoughts->empty()) *thoughts += '\n';
      *thoughts += item.message.reasoning_content;
      return {};
    }
    case ItemKind::kCall:
      for (const ToolCall& call : item.message.tool_calls) {
        calls_.insert(call.id);
        Assistant(true)->tool_calls.push_back(call);
      }
      return {};
    case ItemKind::kCallOutput:
      if (calls_.contains(item.message.tool_call_id)) {
        messages_.push_back(item.message);
        return {};
      }
      return InvalidArgument(
          fmt::format(
              "'{}.call_id' is '{}', but no item before it is a function_call with this id.",
              item.at, ShownName(item.message.tool_call_id)),
          item.at + ".call_id");
  }
  return {};
}

std::vector<ChatMessage> ItemMessages::Take() { return std::move(messages_); }

}  // namespace ropeway::api
