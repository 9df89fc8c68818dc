#include "answer/generic_tools.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ropeway::answer {
namespace {

std::string Written(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The schema of the parameters stands there as the client wrote it, on one line. JSON has line ends
// only between its values.
std::string TextOf(const Tool& tool) {
  std::string text = R"({"type":"function","function":{"name":)" + Written(tool.name);
  if (!tool.description.empty()) text += R"(,"description":)" + Written(tool.description);
  if (!tool.parameters.empty()) {
    const auto is_end = [](char c) { return c == '\n' || c == '\r'; };
    text += R"(,"parameters":)";
    std::replace_copy_if(tool.parameters.begin(), tool.parameters.end(), std::back_inserter(text),
                         is_end, ' ');
  }
  return text + "}}\n";
}

std::string TextOf(const std::vector<Tool>& tools) {
  std::string text =
      "You can call functions. Each line between <tools> and </tools> describes one as JSON: its "
      "name, what it does, and the JSON Schema of its parameters.\n<tools>\n";
  for (const Tool& tool : tools) text += TextOf(tool);
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

void ShowTools(const std::string& shown, bool system, std::vector<ChatMessage>* messages) {
  const auto begin = messages->begin();
  const auto is_system = [](const ChatMessage& message) { return message.role == "system"; };
  const auto is_user = [](const ChatMessage& message) { return message.role == "user"; };
  if (system && begin != messages->end() && is_system(*begin)) {
    begin->content += "\n\n" + shown;
    begin->part_sizes.clear();
    return;
  }
  const auto user = std::find_if(begin, messages->end(), is_user);
  if (system) {
    messages->insert(begin, {"system", shown});
  } else if (user == messages->end()) {
    messages->insert(std::find_if_not(begin, messages->end(), is_system), {"user", shown});
  } else {
    user->content = shown + "\n\n" + user->content;
    user->part_sizes.clear();
  }
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
  if (!chat.tools.empty()) ShowTools(TextOf(chat.tools), system, &chat.messages);
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
