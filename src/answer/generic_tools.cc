#include "answer/generic_tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ropeway::answer {
namespace {

using Json = nlohmann::ordered_json;

std::string Written(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// JSON text as a value; what is none stays a text.
Json ValueOf(const std::string& text) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

std::string TextOf(const std::vector<Tool>& tools) {
  std::string text =
      "You can call functions. Each line between <tools> and </tools> describes one as JSON: its "
      "name, what it does, and the JSON Schema of its parameters.\n<tools>\n";
  for (const Tool& tool : tools) {
    Json function = {{"name", tool.name}};
    if (!tool.description.empty()) function["description"] = tool.description;
    if (!tool.parameters.empty()) function["parameters"] = ValueOf(tool.parameters);
    text += Written({{"type", "function"}, {"function", std::move(function)}}) + "\n";
  }
  return text +
         "</tools>\nTo call one, write its name and its arguments as JSON between these "
         "tags:\n<tool_call>\n{\"name\": \"function name\", \"arguments\": {\"parameter\": "
         "\"value\"}}\n</tool_call>";
}

std::string TextOf(const ToolCall& call) {
  const std::string arguments = call.arguments.empty() ? "{}" : call.arguments;
  return "<tool_call>\n{\"name\": " + Written(call.name) + ", \"arguments\": " + arguments +
         "}\n</tool_call>";
}

}  // namespace

bool MentionsTools(const Chat& chat) {
  return !chat.tools.empty() ||
         std::any_of(chat.messages.begin(), chat.messages.end(), [](const ChatMessage& message) {
           return message.role == "tool" || !message.tool_calls.empty();
         });
}

Chat WithoutTools(Chat chat, bool system) {
  std::vector<ChatMessage> messages;
  if (!chat.tools.empty()) {
    const std::string shown = TextOf(chat.tools);
    const bool has_system = !chat.messages.empty() && chat.messages.front().role == "system";
    if (system && !has_system) {
      messages.push_back({"system", shown});
    } else if (!chat.messages.empty()) {
      ChatMessage& first = chat.messages.front();
      first.content = has_system ? first.content + "\n\n" + shown : shown + "\n\n" + first.content;
      first.part_sizes.clear();
    }
  }
  for (ChatMessage& message : chat.messages) {
    for (const ToolCall& call : message.tool_calls) {
      message.content += (message.content.empty() ? "" : "\n") + TextOf(call);
    }
    if (!message.tool_calls.empty()) message.part_sizes.clear();
    message.tool_calls.clear();
    if (message.role != "tool") {
      messages.push_back(std::move(message));
      continue;
    }
    const std::string response = "<tool_response>\n" + message.content + "\n</tool_response>";
    // What several tools say is one message: many templates want user and assistant in turns.
    if (!messages.empty() && messages.back().role == "user" &&
        messages.back().content.ends_with("</tool_response>")) {
      messages.back().content += "\n" + response;
    } else {
      messages.push_back({"user", response});
    }
  }
  chat.messages = std::move(messages);
  chat.tools.clear();
  return chat;
}

}  // namespace ropeway::answer
