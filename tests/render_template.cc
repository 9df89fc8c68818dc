// render_template: renders chat templates for scripts/check_templates.py.
//
// Reads one JSON object a line: {"template": text, "messages": [{"role", "content": text or a list
// of texts, "name"?, "tool_call_id"?, "reasoning_content"?, "tool_calls"?: [{"id", "name",
// "arguments": JSON text}]}], "tools"?: [{"name", "description", "parameters": JSON text}],
// "template_arguments"?: JSON text, "add_generation_prompt": bool, "continue_final_message"?: bool,
// "bos_token": text, "eos_token": text, "now": seconds since 1970}. Writes one a line:
// {"parsed": bool, "traits": {...}, "text": text} or with "error": text.
#include <chrono>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/chat_template.h"

namespace {

using nlohmann::json;
using ropeway::Chat;
using ropeway::ChatMessage;
using ropeway::StatusOr;
using ropeway::tokenizer::ChatTemplate;
using ropeway::tokenizer::ContentForm;
using ropeway::tokenizer::TemplateTraits;

ChatMessage MessageOf(const json& given) {
  ChatMessage message;
  message.role = given.at("role");
  message.name = given.value("name", "");
  message.tool_call_id = given.value("tool_call_id", "");
  message.reasoning_content = given.value("reasoning_content", "");
  const json& content = given.at("content");
  if (content.is_string()) message.content = content;
  if (content.is_array()) {
    for (const json& part : content) {
      if (!message.part_sizes.empty()) message.content += '\n';
      message.content += part.get_ref<const std::string&>();
      message.part_sizes.push_back(part.get_ref<const std::string&>().size());
    }
  }
  for (const json& call : given.value("tool_calls", json::array())) {
    message.tool_calls.push_back({call.at("id"), call.at("name"), call.at("arguments")});
  }
  return message;
}

Chat ChatOf(const json& job) {
  Chat chat;
  for (const json& message : job.at("messages")) chat.messages.push_back(MessageOf(message));
  for (const json& tool : job.value("tools", json::array())) {
    chat.tools.push_back({tool.at("name"), tool.at("description"), tool.at("parameters")});
  }
  chat.template_arguments = job.value("template_arguments", "");
  chat.add_generation_prompt = job.at("add_generation_prompt");
  chat.continue_final_message = job.value("continue_final_message", false);
  return chat;
}

const char* FormName(ContentForm form) {
  if (form == ContentForm::kText) return "text";
  return form == ContentForm::kParts ? "parts" : "text or parts";
}

json TraitsAsJson(const TemplateTraits& traits) {
  json forms;
  for (const char* role : {"system", "user", "assistant", "tool"}) {
    forms[role] = FormName(traits.FormOf(role));
  }
  return {{"reads_tools", traits.reads_tools},
          {"reads_tool_calls", traits.reads_tool_calls},
          {"object_arguments", traits.object_arguments},
          {"none_content", traits.none_content},
          {"whole_tools", traits.whole_tools},
          {"reasoning_key", traits.reasoning_key},
          {"forms", std::move(forms)}};
}

json Rendered(const StatusOr<ChatTemplate>& parsed, const json& job) {
  if (!parsed.ok()) return {{"parsed", false}, {"error", parsed.status().message()}};
  const std::string bos = job.at("bos_token");
  const std::string eos = job.at("eos_token");
  const std::chrono::system_clock::time_point now(
      std::chrono::seconds(job.at("now").get<int64_t>()));
  const auto text = parsed->Render(ChatOf(job), bos, eos, now);
  json answer = {{"parsed", true}, {"traits", TraitsAsJson(parsed->traits())}};
  if (text.ok()) {
    answer["text"] = text->text;
  } else {
    answer["error"] = text.status().message();
  }
  return answer;
}

}  // namespace

int main() {
  try {
    // Parsing a template takes far longer than rendering it, and many jobs have the same.
    std::string source;
    std::optional<StatusOr<ChatTemplate>> parsed;
    for (std::string line; std::getline(std::cin, line);) {
      const json job = json::parse(line);
      if (!parsed || job.at("template") != source) {
        source = job.at("template");
        parsed.emplace(ChatTemplate::Parse(source));
      }
      std::cout << Rendered(*parsed, job).dump() << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << "render_template: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
