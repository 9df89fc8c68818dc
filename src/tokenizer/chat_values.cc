#include "tokenizer/chat_values.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/chat_size.h"
#include "base/json.h"
#include "tokenizer/jinja/builtins.h"

namespace ropeway::tokenizer {
namespace {

using jinja::Value;
using nlohmann::ordered_json;

constexpr size_t kMaxRoleBytes = 64;

// What the values of a message, a part, a call or a tool take besides their text.
constexpr size_t kMessageBytes = 512;
// What a value or a key of JSON takes besides its text.
constexpr size_t kJsonValueBytes = 160;
// Messages of so many bytes are made values in about a millisecond.
constexpr size_t kTakenToAsk = size_t{1} << 20U;

// A message nests a few levels around its JSON.
static_assert(base::kChatJsonBounds.max_depth + 10 < Value::kMaxDepth);

// The template's own variables.
constexpr std::array<std::string_view, 7> kOwnVariables = {
    "messages",  "tools",    "documents", "add_generation_prompt", "continue_final_message",
    "bos_token", "eos_token"};
// Jinja's functions that are not in jinja/ either.
constexpr std::array<std::string_view, 3> kOtherFunctions = {"lipsum", "cycler", "joiner"};

// Text of the client.
Value Said(std::string_view text) {
  jinja::Str str{std::string(text)};
  AddSpan(0, text.size(), &str.quoted);
  return Value::Of(std::move(str));
}

// The client chooses a role from a few, and some templates make a control token of
// it ("<|" + role + "|>"), so a plain name counts as the template's own. No other text does: it
// could close the token and write more.
Value RoleValue(const std::string& role) {
  const bool plain = !role.empty() && role.size() <= kMaxRoleBytes &&
                     std::all_of(role.begin(), role.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '-';
                     });
  return plain ? Value::Of(role) : Said(role);
}

// The message's parts; none where it is one text, or is to be given as one.
std::vector<std::string_view> PartsOf(const ChatMessage& message, ContentForm form) {
  const std::string_view content = message.content;
  std::vector<std::string_view> parts;
  if (form == ContentForm::kText) return parts;
  size_t at = 0;
  for (const size_t size : message.part_sizes) {
    if (at > content.size() || size > content.size() - at) break;
    parts.push_back(content.substr(at, size));
    at += size + 1;
  }
  // Sizes that are not this content's count as none.
  if (at != content.size() + 1) parts.clear();
  if (form == ContentForm::kParts && parts.empty()) parts = {content};
  return parts;
}

Value ContentValue(const ChatMessage& message, const TemplateTraits& traits) {
  const bool only_calls = message.content.empty() && !message.tool_calls.empty();
  if (only_calls && traits.none_content) return {};
  const ContentForm form = traits.FormOf(message.role);
  if (only_calls && form == ContentForm::kParts) return Value::Of(jinja::List());
  const std::vector<std::string_view> parts = PartsOf(message, form);
  if (parts.empty()) return Said(message.content);
  jinja::List list;
  for (const std::string_view part : parts) {
    list.push_back(Value::Of(
        jinja::Dict{{Value::Of("type"), Value::Of("text")}, {Value::Of("text"), Said(part)}}));
  }
  return Value::Of(std::move(list));
}

// Makes the values of one chat.
class Maker {
 public:
  Maker(const TemplateTraits& traits, const std::function<bool(size_t held)>& stopped)
      : traits_(traits), stopped_(stopped) {}

  Status AddMessages(const std::vector<ChatMessage>& messages) {
    jinja::List list;
    list.reserve(messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
      StatusOr<Value> value = MessageValue(messages[i], "messages[" + std::to_string(i) + "]");
      if (!value.ok()) return value.status();
      list.push_back(*std::move(value));
      const size_t parts = messages[i].part_sizes.size() * kMessageBytes;
      if (Status status = Take(base::TextBytes(messages[i]) + parts); !status.ok()) return status;
    }
    Add("messages", Value::Of(std::move(list)));
    return {};
  }

  Status AddTools(const std::vector<Tool>& tools) {
    jinja::List list;
    for (size_t i = 0; i < tools.size(); ++i) {
      StatusOr<Value> value = ToolValue(tools[i], "tools[" + std::to_string(i) + "].function");
      if (!value.ok()) return value.status();
      list.push_back(*std::move(value));
      if (Status status = Take(tools[i].description.size()); !status.ok()) return status;
    }
    // As in Hugging Face's renderer without tools.
    Add("tools", list.empty() ? Value() : Value::Of(std::move(list)));
    return {};
  }

  Status AddArguments(const std::string& text) {
    constexpr const char* kField = "chat_template_kwargs";
    if (text.empty()) return {};
    const StatusOr<ordered_json> arguments = ReadObject(text, kField);
    if (!arguments.ok()) return arguments.status();
    for (const auto& [name, value] : arguments->items()) {
      const auto is_name = [&name = name](std::string_view other) { return other == name; };
      if (std::any_of(kOwnVariables.begin(), kOwnVariables.end(), is_name) ||
          std::any_of(kOtherFunctions.begin(), kOtherFunctions.end(), is_name) ||
          jinja::FindBuiltin(jinja::kFunction, name) != nullptr) {
        return InvalidArgument(std::string(kField) + " must not set '" + name +
                                   "', which every chat template has of its own",
                               kField);
      }
      Add(name, JsonValue(value));
      if (Status status = Take(0); !status.ok()) return status;
    }
    return {};
  }

  void Add(std::string_view name, Value value) {
    made_.globals.emplace_back(name, std::move(value));
  }
  ChatValues TakeMade() { return std::move(made_); }

 private:
  StatusOr<Value> MessageValue(const ChatMessage& message, const std::string& field) {
    jinja::Dict entries = {{Value::Of("role"), RoleValue(message.role)},
                           {Value::Of("content"), ContentValue(message, traits_)}};
    // Only if set: templates test whether they are defined.
    const auto add = [&entries](std::string_view key, const std::string& text) {
      if (!text.empty()) entries.emplace_back(Value::Of(key), Said(text));
    };
    add("name", message.name);
    add("tool_call_id", message.tool_call_id);
    add(traits_.reasoning_key, message.reasoning_content);
    if (message.tool_calls.empty()) return Value::Of(std::move(entries));
    jinja::List calls;
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      StatusOr<Value> value = CallValue(message.tool_calls[i],
                                        field + ".tool_calls[" + std::to_string(i) + "].function");
      if (!value.ok()) return value.status();
      calls.push_back(*std::move(value));
      if (Status status = Take(0); !status.ok()) return status;
    }
    entries.emplace_back(Value::Of("tool_calls"), Value::Of(std::move(calls)));
    return Value::Of(std::move(entries));
  }

  StatusOr<Value> CallValue(const ToolCall& call, const std::string& field) {
    const std::string text = call.arguments.empty() ? "{}" : call.arguments;
    // JSON text is read too, so that what is accepted does not depend on the template.
    const StatusOr<ordered_json> arguments = ReadObject(text, field + ".arguments");
    if (!arguments.ok()) return arguments.status();
    jinja::Dict entries;
    if (!call.id.empty()) entries.emplace_back(Value::Of("id"), Said(call.id));
    entries.emplace_back(Value::Of("type"), Value::Of("function"));
    entries.emplace_back(
        Value::Of("function"),
        Value::Of(jinja::Dict{{Value::Of("name"), Said(call.name)},
                              {Value::Of("arguments"),
                               traits_.object_arguments ? JsonValue(*arguments) : Said(text)}}));
    return Value::Of(std::move(entries));
  }

  StatusOr<Value> ToolValue(const Tool& tool, const std::string& field) {
    jinja::Dict function = {{Value::Of("name"), Said(tool.name)}};
    if (!tool.description.empty() || traits_.whole_tools) {
      function.emplace_back(Value::Of("description"), Said(tool.description));
    }
    const std::string none = R"({"type": "object", "properties": {}})";
    const std::string& text =
        tool.parameters.empty() && traits_.whole_tools ? none : tool.parameters;
    if (!text.empty()) {
      const StatusOr<ordered_json> parameters = ReadObject(text, field + ".parameters");
      if (!parameters.ok()) return parameters.status();
      function.emplace_back(Value::Of("parameters"), JsonValue(*parameters));
    }
    return Value::Of(jinja::Dict{{Value::Of("type"), Value::Of("function")},
                                 {Value::Of("function"), Value::Of(std::move(function))}});
  }

  // A value of the client's JSON, with the keys in their order.
  Value JsonValue(const ordered_json& json) {
    made_.bytes += kJsonValueBytes;
    if (json.is_object()) {
      jinja::Dict entries;
      entries.reserve(json.size());
      made_.bytes += json.size() * kJsonValueBytes;
      for (const auto& [key, value] : json.items())
        entries.emplace_back(Said(key), JsonValue(value));
      return Value::Of(std::move(entries));
    }
    if (json.is_array()) {
      jinja::List items;
      items.reserve(json.size());
      for (const ordered_json& item : json) items.push_back(JsonValue(item));
      return Value::Of(std::move(items));
    }
    if (json.is_string()) return Said(json.get_ref<const std::string&>());
    if (json.is_boolean()) return Value::Of(json.get<bool>());
    // A float too where it is an integer that templates' arithmetic does not have.
    if (json.is_number_float() || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)) {
      return Value::Of(json.get<double>());
    }
    if (json.is_number()) return Value::Of(json.get<int64_t>());
    return {};
  }

  StatusOr<ordered_json> ReadObject(const std::string& text, const std::string& field) {
    StatusOr<ordered_json> json = base::ReadOrderedJson(text, base::kChatJsonBounds, field);
    if (!json.ok()) return Status(json.status().code(), json.status().message(), field);
    if (!json->is_object()) {
      return InvalidArgument(field + " must be a JSON object, got " + json->type_name(), field);
    }
    made_.bytes += text.size();
    return json;
  }

  // Counts the memory of a message or a tool, and asks whether to go on.
  Status Take(size_t bytes) {
    made_.bytes += bytes + kMessageBytes;
    if (made_.bytes - asked_ < kTakenToAsk) return {};
    asked_ = made_.bytes;
    if (!stopped_ || !stopped_(made_.bytes)) return {};
    return {StatusCode::kCancelled, "the rendering was stopped"};
  }

  const TemplateTraits& traits_;
  const std::function<bool(size_t held)>& stopped_;
  ChatValues made_;
  size_t asked_ = 0;
};

}  // namespace

StatusOr<ChatValues> MakeChatValues(const Chat& chat, const TemplateTraits& traits,
                                    std::string_view bos_token, std::string_view eos_token,
                                    const std::function<bool(size_t held)>& stopped) {
  Maker maker(traits, stopped);
  if (Status status = maker.AddMessages(chat.messages); !status.ok()) return status;
  if (Status status = maker.AddTools(chat.tools); !status.ok()) return status;
  if (Status status = maker.AddArguments(chat.template_arguments); !status.ok()) return status;
  maker.Add("add_generation_prompt",
            Value::Of(chat.add_generation_prompt && !chat.continue_final_message));
  maker.Add("bos_token", Value::Of(bos_token));
  maker.Add("eos_token", Value::Of(eos_token));
  // As in Hugging Face's renderer without documents.
  maker.Add("documents", Value());
  return maker.TakeMade();
}

std::string_view LastTextOf(const ChatMessage& message, const TemplateTraits& traits) {
  const std::vector<std::string_view> parts = PartsOf(message, traits.FormOf(message.role));
  return parts.empty() ? std::string_view(message.content) : parts.back();
}

}  // namespace ropeway::tokenizer
