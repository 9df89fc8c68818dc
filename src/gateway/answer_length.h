// How long an answer is, and how long it may be: what a backend sends and says beyond what was
// asked for is not taken.
#ifndef ROPEWAY_GATEWAY_ANSWER_LENGTH_H_
#define ROPEWAY_GATEWAY_ANSWER_LENGTH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/backend.h"
#include "ropeway/request.h"

namespace ropeway::gateway {

// UTF-8 characters.
uint64_t CountCharacters(std::string_view text);
// Those of all that it says.
uint64_t CountCharacters(const Delta& delta);
// The tokens of so many, about, for usage that a backend leaves out.
int32_t EstimatedTokens(uint64_t characters);

// Counts the output of one request: its thoughts, its text and its calls' names and arguments are
// one text. Thread rule: one thread at a time.
class AnswerLength {
 public:
  // The tokens that the answer may have; nothing: it has no bound.
  explicit AnswerLength(std::optional<int32_t> most);

  // Counts new output, and cuts off it what is more than may come. Returns false where it cut: the
  // answer is complete.
  //
  // Tokens that the backend tells, by ids or log-probabilities, are counted strictly. The number
  // of tokens of text alone is not known, and an honest answer must not be cut. Most servers send a
  // piece for each token; but a token may be told in two pieces, a piece may hold several, and
  // proxies cut text as they like. No usual tokenizer has a token in which two words begin, but
  // some have. So text is cut where it has more pieces than tokens were asked for, and more words,
  // or more characters at 8 a token, too; or where words and characters are more than four times as
  // many.
  bool Take(Delta* delta);

  // Generated so far, as told, or else estimated.
  int32_t tokens() const;
  // What the backend may say of the number of tokens and be believed: what it told, and at most a
  // token for each byte of text besides, a few that have no text, and what may come.
  int32_t LeastTokens() const;
  int32_t MostTokens() const;

 private:
  // Counts `text`; returns how many bytes of it fit.
  size_t Fitting(std::string_view text);
  // Counts the text, and cuts off what does not fit. Returns false where it cut.
  bool Fit(std::string* text);
  bool FitCalls(std::vector<ToolCallDelta>* calls);
  bool IsTooLong() const;

  std::optional<uint64_t> most_;
  uint64_t told_ = 0;     // Tokens.
  uint64_t pieces_ = 0;   // Of text without tokens.
  bool has_ids_ = false;  // Some token has one.
  bool untold_ = false;   // Some of the text came without its tokens.
  // The length of all text; bytes with those around calls, which are not sent.
  uint64_t words_ = 0;
  uint64_t characters_ = 0;
  uint64_t bytes_ = 0;
  bool in_word_ = false;  // The text so far ends in one.
};

// `usage` with numbers that can be true of `request` and its answer of this length: no more tokens
// than were asked for or can be in the text, none cached beyond the prompt. Sets *changed where it
// has others than the backend said.
Usage Believed(Usage usage, const Request& request, const AnswerLength& length, bool* changed);

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_ANSWER_LENGTH_H_
