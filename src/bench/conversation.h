// Chats of several turns: what users say, and how long they are answered.
#ifndef ROPEWAY_BENCH_CONVERSATION_H_
#define ROPEWAY_BENCH_CONVERSATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ropeway/status.h"

namespace ropeway {

struct ChatTurn {
  std::string user;
  // What the history says was answered; "": what the server answered.
  std::string assistant;
  int max_tokens = 1;  // Of the answer, all of which are generated where the server can be told.
};

using Conversation = std::vector<ChatTurn>;

// Lengths of messages and answers: log-normal, that is exp(N(ln median, spread^2)), the spread of
// both being `spread`, rounded, and cut off at a quarter and at four times the median.
struct ChatLengths {
  int first_tokens = 1500;  // Medians: of a conversation's first message,
  int user_tokens = 100;    // and of the later ones.
  int answer_tokens = 80;
  double spread = 0.5;
};

// Conversation `number` of `turns` turns, of random short words (a token each in nearly every
// vocabulary), as a pure function of its arguments. No two begin alike. REQUIRES: turns >= 1,
// medians >= 4, spread >= 0.
Conversation RandomConversation(uint64_t seed, int number, int turns, const ChatLengths& lengths);

// One user message of about `tokens` tokens and its answer, likewise.
ChatTurn RandomTurn(uint64_t seed, int number, int tokens, int answer_tokens);

// Reads JSON lines in the form of MT-Bench-101, {"history": [{"user": text, "bot": text}, ...]}, at
// most `limit` of them. The history of later turns is the file's; an answer has as many tokens as
// the file's has bytes / 4, rounded up. Fails with kNotFound or kInvalidArgument and the line's
// number.
StatusOr<std::vector<Conversation>> ReadDialogues(const std::string& path, int limit);

// The `messages` of a request for the answer to turn `turn`: all that was said before, with
// `answers` where the turn names none. REQUIRES: 0 <= turn < conversation.size(); answers has at
// least `turn` entries.
std::string MessagesOf(const Conversation& conversation, int turn,
                       const std::vector<std::string>& answers);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_CONVERSATION_H_
