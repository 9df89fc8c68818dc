#include "server/chat_messages.h"

#include <fmt/format.h>

#include <utility>

#include "server/json_fields.h"

namespace ropeway {
namespace {

using nlohmann::json;

StatusOr<std::string> ReadTextPart(const json& part, const std::string& at) {
  if (!part.is_object()) return Mismatch(part, at, "an object");
  const json type = part.value("type", json());
  if (type != "text") {
    return Status(StatusCode::kUnimplemented,
                  fmt::format("'{}' is not supported but as \"text\".", at + ".type"),
                  at + ".type");
  }
  return ReadString(part.value("text", json()), at + ".text");
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
  if (*name == "system" || *name == "user" || *name == "assistant") return name;
  if (*name == "tool" || *name == "function") {
    return Status(StatusCode::kUnimplemented,
                  fmt::format("'{}' is '{}', which is not supported.", at, *name), at);
  }
  return InvalidArgument(
      fmt::format("'{}' must be one of system, developer, user and assistant.", at), at);
}

// Clients send an assistant's message back as they got it, with fields that hold nothing.
Status CheckOtherField(const std::string& name, const json& value, const std::string& at) {
  const std::string path = at + "." + name.substr(0, 64);
  for (const char* known : {"refusal", "annotations", "audio", "tool_calls", "function_call",
                            "reasoning_content", "tool_call_id"}) {
    if (name != known) continue;
    if (value.is_null() || value.empty()) return {};
    return {StatusCode::kUnimplemented, fmt::format("'{}' is not supported.", path), path};
  }
  if (name == "name") return {};  // The models' templates have no place for it.
  return InvalidArgument(fmt::format("Unknown field '{}'.", path), path);
}

StatusOr<ChatMessage> ReadMessage(const json& value, const std::string& at) {
  if (!value.is_object()) return Mismatch(value, at, "an object");
  for (const auto& [name, field] : value.items()) {
    if (name == "role" || name == "content") continue;
    Status status = CheckOtherField(name, field, at);
    if (!status.ok()) return status;
  }
  StatusOr<std::string> role = ReadRole(value.value("role", json()), at + ".role");
  if (!role.ok()) return role.status();
  StatusOr<std::string> content = ReadContent(value.value("content", json()), at + ".content");
  if (!content.ok()) return content.status();
  return ChatMessage{*std::move(role), *std::move(content)};
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
