#include "bench/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/random.h"
#include "bench/random_lengths.h"
#include "bench/random_prompts.h"
#include "bench/text_lines.h"

namespace ropeway {
namespace {

using Json = nlohmann::json;

constexpr int kBytesPerToken = 4;

// Cut off at a quarter and at four times the median.
int DrawAround(Random* random, int median, double spread) {
  return DrawLength(
      random,
      {.median = 1.0 * median, .spread = spread, .least = median / 4.0, .most = 4.0 * median});
}

// The turn of a dialogue; false where it has no texts.
bool ReadTurn(const Json& json, ChatTurn* turn) {
  if (!json.is_object() || !json.contains("user") || !json["user"].is_string() ||
      !json.contains("bot") || !json["bot"].is_string()) {
    return false;
  }
  turn->user = json["user"].get<std::string>();
  turn->assistant = json["bot"].get<std::string>();
  const auto bytes = static_cast<int>(turn->assistant.size());
  turn->max_tokens = std::max(1, (bytes + kBytesPerToken - 1) / kBytesPerToken);
  return !turn->user.empty() && !turn->assistant.empty();
}

}  // namespace

ChatTurn RandomTurn(uint64_t seed, int number, int tokens, int answer_tokens) {
  ChatTurn turn;
  turn.user = RandomPrompts(seed, /*as_ids=*/false, /*overhead=*/0).Make(0, number, tokens).text;
  turn.max_tokens = answer_tokens;
  return turn;
}

Conversation RandomConversation(uint64_t seed, int number, int turns, const ChatLengths& lengths) {
  const uint64_t own_seed = Mix64(seed, static_cast<uint64_t>(number));
  SeededRandom random(own_seed);
  Conversation conversation;
  for (int i = 0; i < turns; ++i) {
    const int median = i == 0 ? lengths.first_tokens : lengths.user_tokens;
    const int user = DrawAround(&random, median, lengths.spread);
    const int answer = DrawAround(&random, lengths.answer_tokens, lengths.spread);
    conversation.push_back(RandomTurn(own_seed, i, user, answer));
  }
  return conversation;
}

StatusOr<std::vector<Conversation>> ReadDialogues(const std::string& path, int limit) {
  TextLines lines(path);
  if (!lines.open()) return lines.Unreadable();
  std::vector<Conversation> dialogues;
  while (static_cast<int>(dialogues.size()) < limit && lines.Next()) {
    const Json line = Json::parse(lines.text(), nullptr, false);
    if (!line.is_object() || !line.contains("history") || !line["history"].is_array() ||
        line["history"].empty()) {
      return lines.Wrong("a dialogue must be a JSON object with a list \"history\"");
    }
    Conversation conversation;
    for (const Json& turn : line["history"]) {
      if (!ReadTurn(turn, &conversation.emplace_back())) {
        return lines.Wrong("each turn of \"history\" must have the texts \"user\" and \"bot\"");
      }
    }
    dialogues.push_back(std::move(conversation));
  }
  if (dialogues.empty()) return lines.Empty();
  return dialogues;
}

std::string MessagesOf(const Conversation& conversation, int turn,
                       const std::vector<std::string>& answers) {
  Json messages = Json::array();
  for (int i = 0; i <= turn; ++i) {
    const ChatTurn& said = conversation[static_cast<size_t>(i)];
    messages.push_back({{"role", "user"}, {"content", said.user}});
    if (i == turn) break;
    const std::string& answer =
        said.assistant.empty() ? answers[static_cast<size_t>(i)] : said.assistant;
    messages.push_back({{"role", "assistant"}, {"content", answer}});
  }
  return messages.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ropeway
