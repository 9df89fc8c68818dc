#include "api/wire_chat.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace ropeway::api::wire {
namespace {

using OrderedJson = nlohmann::ordered_json;
using core::ServerKind;

// What of a chat kinds of servers know beside OpenAI's own fields; some reject any other.
constexpr uint32_t kOpenSource = core::kRopeway | core::kVllm | core::kSglang | core::kLlamaCpp;
constexpr uint32_t kKnowThoughts = kOpenSource;   // A message's `reasoning_content`.
constexpr uint32_t kKnowParts = kOpenSource;      // Content in text parts.
constexpr uint32_t kKnowArguments = kOpenSource;  // `chat_template_kwargs`.
// `reasoning_effort` as a field of its own, and for models without a template of text.
constexpr uint32_t kKnowEffort = core::kOpenAi | core::kVllm | core::kSglang | core::kLmStudio;
// A tool's `strict`; llama.cpp holds all calls to their schemas.
constexpr uint32_t kKnowStrict = core::kOpenAi | core::kRopeway | core::kVllm | core::kSglang;
constexpr uint32_t kKnowParallel =
    core::kOpenAi | core::kRopeway | core::kVllm | core::kSglang | core::kLlamaCpp;
constexpr uint32_t kKnowNamedTool =
    core::kOpenAi | core::kRopeway | core::kVllm | core::kSglang;  // An object as `tool_choice`.
constexpr uint32_t kContinue = kOpenSource;                        // `continue_final_message`.
constexpr uint32_t kKnowPrompt = core::kRopeway | core::kVllm | core::kLlamaCpp;

constexpr base::JsonBounds kBounds = {.max_depth = 64, .repeated_keys = true};

// A text of the client's that has to be an object.
StatusOr<OrderedJson> ReadObject(const std::string& text, const std::string& field) {
  StatusOr<OrderedJson> object = base::ReadOrderedJson(text, kBounds, "it");
  if (!object.ok()) {
    return InvalidArgument(
        fmt::format("'{}' is not a JSON object: {}", field, object.status().message()), field);
  }
  if (!object->is_object()) {
    return InvalidArgument(fmt::format("'{}' is not a JSON object", field), field);
  }
  return object;
}

// --- Messages.

// The content in its parts; one text where their sizes are not those of the text.
OrderedJson ContentOf(const ChatMessage& message, ServerKind kind) {
  if (message.part_sizes.empty() || (kind & kKnowParts) == 0) return message.content;
  OrderedJson parts = OrderedJson::array();
  size_t at = 0;
  for (const size_t size : message.part_sizes) {
    const size_t begin = parts.empty() ? 0 : at + 1;
    const bool follows = begin == 0 || (at < message.content.size() && message.content[at] == '\n');
    if (!follows || size > message.content.size() - begin) return message.content;
    parts.push_back({{"type", "text"}, {"text", message.content.substr(begin, size)}});
    at = begin + size;
  }
  return at == message.content.size() ? parts : OrderedJson(message.content);
}

StatusOr<OrderedJson> CallOf(const ToolCall& call, ServerKind kind, const std::string& at) {
  OrderedJson one = OrderedJson::object();
  if (!call.id.empty()) one["id"] = call.id;
  OrderedJson function = {{"name", call.name}};
  if (kind == core::kOllama) {
    StatusOr<OrderedJson> arguments = ReadObject(call.arguments, at + ".function.arguments");
    if (!arguments.ok()) return arguments.status();
    function["arguments"] = *std::move(arguments);
  } else {
    one["type"] = "function";
    function["arguments"] = call.arguments;
  }
  one["function"] = std::move(function);
  return one;
}

// Writes the messages of one chat, in order.
class MessageWriter {
 public:
  explicit MessageWriter(ServerKind kind) : kind_(kind) {}

  StatusOr<OrderedJson> Write(const ChatMessage& message, const std::string& at) {
    OrderedJson one = {{"role", message.role}, {"content", ContentOf(message, kind_)}};
    const bool is_ollama = kind_ == core::kOllama;
    if (!message.reasoning_content.empty()) {
      if ((kind_ & kKnowThoughts) != 0) one["reasoning_content"] = message.reasoning_content;
      if (is_ollama) one["thinking"] = message.reasoning_content;
    }
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      const ToolCall& call = message.tool_calls[i];
      StatusOr<OrderedJson> written = CallOf(call, kind_, fmt::format("{}.tool_calls[{}]", at, i));
      if (!written.ok()) return written;
      one["tool_calls"].push_back(*std::move(written));
      called_[call.id] = call.name;
    }
    if (!is_ollama) {
      if (!message.name.empty()) one["name"] = message.name;
    } else if (message.role == "tool") {
      // It knows no other names.
      const auto call = called_.find(message.tool_call_id);
      const std::string_view name = !message.name.empty()   ? std::string_view(message.name)
                                    : call != called_.end() ? call->second
                                                            : std::string_view();
      if (!name.empty()) one["tool_name"] = name;
    }
    if (!message.tool_call_id.empty()) one["tool_call_id"] = message.tool_call_id;
    return one;
  }

 private:
  const ServerKind kind_;
  std::map<std::string_view, std::string_view> called_;  // The tool of each call so far, by its id.
};

Status WriteMessages(const Chat& chat, ServerKind kind, OrderedJson* body) {
  MessageWriter writer(kind);
  OrderedJson& list = (*body)["messages"] = OrderedJson::array();
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    StatusOr<OrderedJson> one = writer.Write(chat.messages[i], fmt::format("messages[{}]", i));
    if (!one.ok()) return one.status();
    list.push_back(*std::move(one));
  }
  return {};
}

// --- Tools.

Status CannotCall(std::string_view what, std::string field) {
  return {StatusCode::kUnimplemented, fmt::format("it cannot {} ('{}')", what, field), field};
}

// Ollama calls tools as the model decides, and in no other way.
Status WriteToolChoice(const Chat& chat, ServerKind kind, OrderedJson* body) {
  const char* const field = "tool_choice";
  const bool calls = chat.tool_choice != ToolChoice::kNone;
  const bool names = (kind & kKnowNamedTool) != 0;
  const bool is_named = !chat.tool_name.empty();
  // A tool that is named is called once by itself, and by LM Studio as often as the model likes.
  if (calls && !chat.parallel_tool_calls && !(is_named && names)) {
    if ((kind & kKnowParallel) != 0) {
      (*body)["parallel_tool_calls"] = false;
    } else if (!is_named) {
      return CannotCall("be held to one call", "parallel_tool_calls");
    }
  }
  if (chat.tool_choice == ToolChoice::kRequired) {
    if (kind == core::kOllama) return CannotCall("be made to call a tool", field);
    if (!names && is_named && chat.tools.size() > 1) {
      return CannotCall("be made to call one tool of several", field);
    }
  }
  if (kind == core::kOllama) return {};
  if (names && is_named) {
    (*body)[field] = {{"type", "function"}, {"function", {{"name", chat.tool_name}}}};
  } else {
    (*body)[field] = chat.tool_choice == ToolChoice::kNone       ? "none"
                     : chat.tool_choice == ToolChoice::kRequired ? "required"
                                                                 : "auto";
  }
  return {};
}

Status WriteTools(const Chat& chat, ServerKind kind, OrderedJson* body) {
  if (chat.tools.empty()) return {};
  const bool calls = chat.tool_choice != ToolChoice::kNone;
  if (kind == core::kOllama && !calls) return {};
  OrderedJson& list = (*body)["tools"] = OrderedJson::array();
  for (size_t i = 0; i < chat.tools.size(); ++i) {
    const Tool& tool = chat.tools[i];
    OrderedJson function = {{"name", tool.name}};
    if (!tool.description.empty()) function["description"] = tool.description;
    if (!tool.parameters.empty()) {
      StatusOr<OrderedJson> parameters =
          ReadObject(tool.parameters, fmt::format("tools[{}].function.parameters", i));
      if (!parameters.ok()) return parameters.status();
      function["parameters"] = *std::move(parameters);
    }
    if (tool.strict && (kind & kKnowStrict) != 0) {
      function["strict"] = true;
    } else if (tool.strict && calls && kind != core::kLlamaCpp) {
      return CannotCall("hold calls to a schema", fmt::format("tools[{}].function.strict", i));
    }
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return WriteToolChoice(chat, kind, body);
}

// --- Variables of the template.

// Ollama's `think`: true, false or an effort.
void WriteThink(OrderedJson* arguments, OrderedJson* body) {
  for (const char* name : {"thinking", "enable_thinking"}) {
    const auto on = arguments->find(name);
    if (on == arguments->end() || !on->is_boolean()) continue;
    (*body)["think"] = *on;
    arguments->erase(on);
  }
  const auto effort = arguments->find("reasoning_effort");
  if (effort == arguments->end() || !effort->is_string()) return;
  if (*effort == "none") {
    (*body)["think"] = false;
  } else if (body->value("think", true)) {
    (*body)["think"] = *effort;
  }
  arguments->erase(effort);
}

// The effort as a field of its own.
void WriteEffort(ServerKind kind, OrderedJson* arguments, OrderedJson* body) {
  const auto effort = arguments->find("reasoning_effort");
  if (effort == arguments->end() || !effort->is_string()) return;
  const bool none = *effort == "none";
  (*body)["reasoning_effort"] = *effort;
  arguments->erase(effort);
  // It says that too.
  const auto on = arguments->find("enable_thinking");
  const bool is_off = on != arguments->end() && *on == false;
  if (none && is_off && (kind & kKnowArguments) == 0) arguments->erase(on);
}

Status WriteArguments(const Chat& chat, ServerKind kind, OrderedJson* body) {
  if (chat.template_arguments.empty()) return {};
  const char* const field = "chat_template_kwargs";
  StatusOr<OrderedJson> arguments = ReadObject(chat.template_arguments, field);
  if (!arguments.ok()) return arguments.status();
  if (kind == core::kOllama) WriteThink(&*arguments, body);
  if ((kind & kKnowEffort) != 0) WriteEffort(kind, &*arguments, body);
  if (arguments->empty()) return {};
  if ((kind & kKnowArguments) == 0) {
    const std::string& name = arguments->begin().key();
    const bool own = name == "enable_thinking" || name == "thinking";
    return {StatusCode::kUnimplemented,
            fmt::format("it has no field for the chat template's variable '{}' ('{}')", name,
                        own ? name : field),
            own ? name : field};
  }
  (*body)[field] = *std::move(arguments);
  return {};
}

Status WriteEnd(const Chat& chat, ServerKind kind, OrderedJson* body) {
  if (chat.continue_final_message) {
    const char* const field = "continue_final_message";
    if ((kind & kContinue) == 0) {
      return {StatusCode::kUnimplemented,
              "it cannot go on with a message of the chat "
              "('continue_final_message')",
              field};
    }
    (*body)[field] = true;
  }
  if (chat.add_generation_prompt) return {};
  const char* const field = "add_generation_prompt";
  if ((kind & kKnowPrompt) != 0) {
    (*body)[field] = false;
  } else if (!chat.continue_final_message) {
    return {StatusCode::kUnimplemented,
            "it cannot leave out the beginning of the answer ('add_generation_prompt')", field};
  }
  return {};
}

}  // namespace

Status WriteChat(const Chat& chat, ServerKind kind, OrderedJson* body) {
  if (Status status = WriteMessages(chat, kind, body); !status.ok()) return status;
  if (Status status = WriteTools(chat, kind, body); !status.ok()) return status;
  if (Status status = WriteArguments(chat, kind, body); !status.ok()) return status;
  return WriteEnd(chat, kind, body);
}

}  // namespace ropeway::api::wire
