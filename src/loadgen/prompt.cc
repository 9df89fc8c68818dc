#include "loadgen/prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace ropeway::loadgen {
namespace {

std::string IdList(const std::vector<int32_t>& ids) {
  return fmt::format("[{}]", fmt::join(ids, ","));
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Question(bool chat, const Prompt& prompt) {
  if (!chat) {
    return "\"prompt\":" + (prompt.ids.empty() ? Quoted(prompt.text) : IdList(prompt.ids));
  }
  if (!prompt.messages.empty()) return "\"messages\":" + prompt.messages;
  return fmt::format(R"("messages":[{{"role":"user","content":{}}}])", Quoted(prompt.text));
}

}  // namespace

std::string Prompt::Shown() const {
  if (!ids.empty()) return IdList(ids);
  return messages.empty() ? text : messages;
}

std::string RequestBody(const RequestShape& shape, const Prompt& prompt, uint64_t seed) {
  std::string body = fmt::format(R"({{"model":{},{},"temperature":{})", Quoted(shape.model),
                                 Question(shape.chat, prompt), shape.temperature);
  if (prompt.max_tokens > 0) body += fmt::format(R"(,"max_tokens":{})", prompt.max_tokens);
  // Within 31 bits: not every server takes more.
  if (shape.temperature != 0) body += fmt::format(R"(,"seed":{})", seed & 0x7FFFFFFF);
  if (shape.ignore_eos) body += R"(,"ignore_eos":true)";
  // As a number, which vLLM takes too.
  if (const auto priority = prompt.priority ? prompt.priority : shape.priority) {
    body += fmt::format(R"(,"priority":{})", static_cast<int>(*priority));
  }
  if (shape.stream) body += R"(,"stream":true,"stream_options":{"include_usage":true})";
  return body + "}";
}

std::string MessagesOf(const Conversation& conversation, int turn,
                       const std::vector<std::string>& answers) {
  nlohmann::json messages = nlohmann::json::array();
  for (int i = 0; i <= turn; ++i) {
    const Conversation::Turn& said = conversation.turns[static_cast<size_t>(i)];
    messages.push_back({{"role", "user"}, {"content", said.user}});
    if (i == turn) break;
    const std::string& answer =
        said.assistant.empty() ? answers[static_cast<size_t>(i)] : said.assistant;
    messages.push_back({{"role", "assistant"}, {"content", answer}});
  }
  return messages.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ropeway::loadgen
