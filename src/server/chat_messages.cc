#include "server/chat_messages.h"

#include <fmt/format.h>

#include <utility>

#include "server/json_fields.h"

namespace ropeway {
namespace {

using nlohmann::json;

const json& Member(const json& object, const char* name) {
  static const json absent;
  const auto found = object.find(name);
  return found == object.end() ? absent : *found;
}

StatusOr<std::string> ReadTextPart(const json& part, const std::string& at) {
  if (!part.is_object()) return Mismatch(part, at, "an object");
  if (Member(part, "type") != "text") {
    return Status(StatusCode::kUnimplemented,
                  fmt::format("'{}' is not supported but as \"text\".", at + ".type"),
                  at + ".type");
  }
  for (const auto& [name, unused] : part.items()) {
    if (name != "type" && name != "text") return UnknownField(at + "." + ShownName(name));
  }
  return ReadString(Member(part, "text"), at + ".text");
}

StatusOr<std::string> ReadContent(const json& content, const std::string& at) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return Mismatch(content, at, "a string or a list of text parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    StatusOr<std::string> part = ReadTextPart(content[i], fmt::format("{}[{}]", at, i));
    if (!part.ok()) return part.status();
    if (i > 0) text += '\n';
    text += *part;
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

// Clients send an assistant's message back as they got it, with fields that hold nothing.
Status CheckOtherField(const std::string& name, const json& value, const std::string& path) {
  for (const char* known : {"refusal", "annotations", "audio", "tool_calls", "function_call",
                            "reasoning", "reasoning_content"}) {
    if (name != known) continue;
    if (value.is_null() || value.empty() || value == "") return {};
    return {StatusCode::kUnimplemented, fmt::format("'{}' is not supported.", path), path};
  }
  return UnknownField(path);
}

Status ReadMessageField(const std::string& name, const json& value, const std::string& at,
                        ChatMessage* message) {
  if (name == "role" || name == "content") return {};  // Read beforehand.
  const std::string path = at + "." + ShownName(name);
  std::string* text = nullptr;
  if (name == "name") text = &message->name;
  if (name == "tool_call_id") text = &message->tool_call_id;
  if (text == nullptr) return CheckOtherField(name, value, path);
  if (value.is_null()) return {};
  StatusOr<std::string> read = ReadString(value, path);
  if (!read.ok()) return read.status();
  *text = *std::move(read);
  return {};
}

Status CheckMessage(const ChatMessage& message, const std::string& at) {
  if (message.role == "function" && message.name.empty()) {
    return InvalidArgument(fmt::format("'{}.name' is required of a function's message.", at),
                           at + ".name");
  }
  if (message.role != "tool" && !message.tool_call_id.empty()) {
    return InvalidArgument(fmt::format("'{}.tool_call_id' is of a tool's message alone.", at),
                           at + ".tool_call_id");
  }
  return {};
}

StatusOr<ChatMessage> ReadMessage(const json& value, const std::string& at) {
  if (!value.is_object()) return Mismatch(value, at, "an object");
  StatusOr<std::string> role = ReadRole(Member(value, "role"), at + ".role");
  if (!role.ok()) return role.status();
  const json& written = Member(value, "content");
  // An assistant's message may have been nothing but what other fields hold.
  StatusOr<std::string> content = std::string();
  if (!(written.is_null() && *role == "assistant")) content = ReadContent(written, at + ".content");
  if (!content.ok()) return content.status();
  ChatMessage message{*std::move(role), *std::move(content)};
  for (const auto& [name, field] : value.items()) {
    Status status = ReadMessageField(name, field, at, &message);
    if (!status.ok()) return status;
  }
  Status status = CheckMessage(message, at);
  if (!status.ok()) return status;
  return message;
}

}  // namespace

StatusOr<std::vector<ChatMessage>> ReadChatMessages(const json& value, const std::string& field) {
  if (!value.is_array()) return Mismatch(value, field, "a list of messages");
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  std::vector<ChatMessage> messages;
  messages.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    StatusOr<ChatMessage> message = ReadMessage(value[i], fmt::format("{}[{}]", field, i));
    if (!message.ok()) return message.status();
    messages.push_back(*std::move(message));
  }
  return messages;
}

}  // namespace ropeway
