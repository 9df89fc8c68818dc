// render_template: renders chat templates for scripts/check_templates.py.
//
// Reads one JSON object a line: {"template": text, "messages": [{"role",
// "content", "name"?, "tool_call_id"?}], "add_generation_prompt": bool,
// "bos_token": text, "eos_token": text, "now": seconds since 1970}. Writes one
// a line: {"parsed": bool, "text": text} or {"parsed": bool, "error": text}.
#include <chrono>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/chat_template.h"

namespace {

using nlohmann::json;
using ropeway::ChatMessage;
using ropeway::tokenizer::ChatTemplate;

std::vector<ChatMessage> MessagesOf(const json& list) {
  std::vector<ChatMessage> messages;
  for (const json& message : list) {
    messages.push_back({message.at("role"), message.at("content"), message.value("name", ""),
                        message.value("tool_call_id", "")});
  }
  return messages;
}

json Rendered(const json& job) {
  const auto parsed = ChatTemplate::Parse(job.at("template").get<std::string>());
  if (!parsed.ok()) return {{"parsed", false}, {"error", parsed.status().message()}};
  const std::string bos = job.at("bos_token");
  const std::string eos = job.at("eos_token");
  const std::chrono::system_clock::time_point now(
      std::chrono::seconds(job.at("now").get<int64_t>()));
  const auto text = parsed->Render({.messages = MessagesOf(job.at("messages")),
                                    .add_generation_prompt = job.at("add_generation_prompt")},
                                   bos, eos, now);
  if (!text.ok()) return {{"parsed", true}, {"error", text.status().message()}};
  return {{"parsed", true}, {"text", text->text}};
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << Rendered(json::parse(line)).dump() << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << "render_template: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
