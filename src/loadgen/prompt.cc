#include "loadgen/prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/random.h"

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

namespace {

constexpr std::array kWords = {
    "time", "year",   "people",  "way",    "day",      "man",    "thing",   "woman",
    "life", "child",  "world",   "school", "state",    "family", "group",   "hand",
    "part", "place",  "case",    "week",   "company",  "system", "program", "question",
    "work", "number", "night",   "point",  "home",     "water",  "room",    "mother",
    "area", "money",  "story",   "fact",   "month",    "lot",    "right",   "study",
    "book", "eye",    "job",     "word",   "business", "issue",  "side",    "kind",
    "head", "house",  "service", "friend", "father",   "power",  "hour",    "game",
    "line", "end",    "member",  "law",    "car",      "city",   "name",    "team"};

// Streams of numbers for different purposes must differ.
constexpr uint64_t kPromptStream = 1;
constexpr uint64_t kArrivalStream = 2;

uint64_t StreamSeed(uint64_t seed, uint64_t stream, int run_num, int seq) {
  return base::Mix64(base::Mix64(base::Mix64(seed, stream), static_cast<uint64_t>(run_num)),
                     static_cast<uint64_t>(seq));
}

}  // namespace

Prompt RandomPrompts::Make(int run_num, int seq, int tokens) const {
  base::SeededRandom random(StreamSeed(seed_, kPromptStream, run_num, seq));
  Prompt prompt;
  if (as_ids_) {
    prompt.ids.reserve(static_cast<size_t>(tokens));
    for (int i = 0; i < tokens; ++i) {
      prompt.ids.push_back(static_cast<int32_t>(random.Between(kFirstId, kLastId)));
    }
    return prompt;
  }
  const int words = std::max(1, tokens - overhead_);
  for (int i = 0; i < words; ++i) {
    if (i > 0) prompt.text += ' ';
    prompt.text += kWords[random.Below(kWords.size())];
  }
  return prompt;
}

std::vector<double> PoissonArrivals(uint64_t seed, int run_num, int count, double rate) {
  base::SeededRandom random(StreamSeed(seed, kArrivalStream, run_num, 0));
  std::vector<double> arrivals;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    arrivals.push_back(at);
    const double uniform = std::ldexp(static_cast<double>(random.Next64() >> 11), -53);
    at += -std::log1p(-uniform) / rate;
  }
  return arrivals;
}

}  // namespace ropeway::loadgen
