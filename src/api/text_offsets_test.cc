// `text_offset` of completions' log-probabilities, streamed and whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "api/test_events.h"
#include "base/utf8.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using Offsets = std::vector<int64_t>;

struct Piece {
  std::string bytes;
  bool hidden = false;  // The text does not show it, as an end token.
};

std::vector<OutputToken> TokensOf(const std::vector<Piece>& pieces) {
  std::vector<OutputToken> tokens;
  uint64_t begin = 0;
  for (const Piece& piece : pieces) {
    OutputToken& token = tokens.emplace_back();
    token.bytes = piece.bytes;
    token.text_offset = begin;
    token.logprob = -1.0F;
    if (!piece.hidden) begin += piece.bytes.size();
  }
  return tokens;
}

// A format that is ready to answer; `echo` is the prompt's text where it is shown.
std::unique_ptr<ApiFormat> Started(bool stream, const std::optional<std::string>& echo, int n = 1) {
  std::unique_ptr<ApiFormat> format = MakeOpenAiCompletions();
  json body = {{"prompt", "p"}, {"logprobs", 0}, {"stream", stream}, {"n", n}};
  if (echo) body["echo"] = true;
  const Status status = format->Parse(body.dump(), {});
  EXPECT_TRUE(status.ok()) << status.message();
  AnswerHead head;
  head.id = "1";
  if (echo) head.prompt_texts = {*echo};
  format->Start(std::move(head));
  return format;
}

// What every choice of a whole answer says.
std::vector<Offsets> Whole(const std::vector<ChoiceOutput>& choices,
                           const std::optional<std::string>& echo = {}) {
  const auto format = Started(false, echo, static_cast<int>(choices.size()));
  std::vector<Offsets> offsets;
  const json answer = json::parse(format->Whole(choices));
  for (const json& choice : answer["choices"]) {
    offsets.push_back(choice["logprobs"]["text_offset"].get<Offsets>());
  }
  return offsets;
}

// The same choices, a token at a time and in turns. A stream's text may come long after its tokens,
// and no offset may depend on it: here all of it comes last.
std::vector<Offsets> Streamed(const std::vector<ChoiceOutput>& choices,
                              const std::optional<std::string>& echo = {}) {
  const auto format = Started(true, echo, static_cast<int>(choices.size()));
  std::string bytes = format->Begin();
  size_t longest = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    longest = std::max(longest, choices[i].tokens.size());
    Delta prompt;
    prompt.prompt_tokens = choices[i].prompt_tokens;
    bytes += format->OnDelta(i, prompt);
  }
  for (size_t at = 0; at < longest; ++at) {
    for (size_t i = 0; i < choices.size(); ++i) {
      if (at >= choices[i].tokens.size()) continue;
      Delta delta;
      delta.tokens = {choices[i].tokens[at]};
      bytes += format->OnDelta(i, delta);
    }
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    Delta rest;
    rest.text = choices[i].text;
    bytes += format->OnDelta(i, rest) + format->OnEnd(i, choices[i].finish);
  }
  std::vector<Offsets> offsets(choices.size());
  for (const std::string& event : Events(bytes + format->Done())) {
    if (event == "[DONE]") continue;
    const json chunk = json::parse(event);
    for (const json& choice : chunk["choices"]) {
      if (choice["logprobs"].is_null()) continue;
      for (const json& offset : choice["logprobs"]["text_offset"]) {
        offsets[choice["index"].get<size_t>()].push_back(offset.get<int64_t>());
      }
    }
  }
  return offsets;
}

ChoiceOutput ChoiceOf(const std::vector<Piece>& pieces) {
  ChoiceOutput choice;
  choice.tokens = TokensOf(pieces);
  std::string bytes;
  for (const Piece& piece : pieces) bytes += piece.hidden ? "" : piece.bytes;
  choice.text = base::ReplaceInvalidUtf8(bytes);
  return choice;
}

void ExpectOffsets(const std::vector<Piece>& pieces, const Offsets& expected) {
  const ChoiceOutput choice = ChoiceOf(pieces);
  EXPECT_EQ(Whole({choice}).front(), expected);
  EXPECT_EQ(Streamed({choice}).front(), expected);
}

TEST(TextOffsets, ACharacterCountsFromItsFirstByte) {
  ExpectOffsets({{"\xf0\x9f"}, {"\x98"}, {"\x80"}, {"\xf0\x9f"}, {"\x98"}, {"\x80"}},
                {0, 1, 1, 1, 2, 2});
  ExpectOffsets({{"a"}, {"\xc3\xa9"}, {"bc"}, {"d"}}, {0, 1, 2, 4});
}

TEST(TextOffsets, BytesThatAreNoTextCountAsWhatReplacesThem) {
  ExpectOffsets({{"\x80"}, {"\xff\xff"}, {"a"}, {"b"}}, {0, 1, 3, 4});
  // A character that breaks off is one U+FFFD, and so is each byte that goes on with none.
  ExpectOffsets({{"\xf0\x9f"}, {"a"}, {"\xe2"}, {"\x28\x80"}, {"b"}}, {0, 1, 2, 3, 5});
  ExpectOffsets({{"\xed"}, {"\xa0"}, {"\x80"}, {"\xc0"}, {""}}, {0, 1, 2, 3, 4});
}

TEST(TextOffsets, HiddenTokensCountNothing) {
  ExpectOffsets({{"a"}, {"<|im_end|>", true}, {"b"}, {"</s>", true}}, {0, 1, 1, 2});
  ExpectOffsets({{"\xf0\x9f"}, {"<s>", true}, {"\x98\x80"}, {"c"}}, {0, 1, 1, 1});
}

// The tokens are reported whole, and the text without the stop string and what follows.
TEST(TextOffsets, AStopStringCutsTheTextAndNoOffset) {
  ChoiceOutput choice = ChoiceOf({{"\xc3\xa9t"}, {"\xc3\xa9 S"}, {"TOP"}});
  choice.text = "\xc3\xa9t\xc3\xa9 ";
  EXPECT_EQ(Whole({choice}).front(), (Offsets{0, 2, 5}));
  EXPECT_EQ(Streamed({choice}).front(), (Offsets{0, 2, 5}));
}

TEST(TextOffsets, TheEchoComesFirst) {
  ChoiceOutput choice = ChoiceOf({{"\x80"}, {"x"}, {"y"}});
  choice.prompt_tokens = TokensOf({{"<s>"}, {"\xf0\x9f"}, {"\x98\x80"}, {"\xf0\x9f"}});
  const std::string echo = "\xf0\x9f\x98\x80\xef\xbf\xbd";
  // The completion's text begins anew: its first byte does not complete the prompt's last one.
  const Offsets expected = {0, 0, 1, 1, 2, 3, 4};
  EXPECT_EQ(Whole({choice}, echo).front(), expected);
  EXPECT_EQ(Streamed({choice}, echo).front(), expected);
}

// The echo of a prompt of ids is the bytes of its tokens, whatever they are.
TEST(TextOffsets, AnEchoOfBytesThatAreNoTextCountsAsItIsShown) {
  ChoiceOutput choice = ChoiceOf({{"ft"}, {"y"}});
  choice.prompt_tokens = TokensOf({{"t"}, {"\x96"}, {"\x97"}, {"The"}});
  const Offsets expected = {0, 1, 2, 3, 6, 8};
  EXPECT_EQ(Whole({choice}, "t\x96\x97The").front(), expected);
  EXPECT_EQ(Streamed({choice}, "t\x96\x97The").front(), expected);
}

size_t Below(std::mt19937* random, size_t bound) { return (*random)() % bound; }

// Bytes of the kinds that matter to UTF-8, in pieces of any lengths.
std::vector<Piece> AnyPieces(std::mt19937* random, std::string_view alphabet) {
  std::vector<Piece> pieces(Below(random, 12));
  for (Piece& piece : pieces) {
    piece.hidden = Below(random, 6) == 0;
    const size_t length = Below(random, 5);
    while (piece.bytes.size() < length) piece.bytes += alphabet[Below(random, alphabet.size())];
  }
  return pieces;
}

constexpr std::string_view kAscii = "abc \n\x01~";
constexpr std::string_view kAnyBytes =
    "a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc3\xe0\xe2\xed\xf0\xf0\xf0\x9f\x98\x80\xf4\xf5\xff";

// By the rule itself: the characters of all text before a token, as if it ended there.
Offsets OffsetsByTheRule(const std::vector<Piece>& pieces) {
  Offsets offsets;
  std::string before;
  for (const Piece& piece : pieces) {
    const std::string text = base::ReplaceInvalidUtf8(before);
    int64_t characters = 0;
    for (size_t at = 0; at < text.size(); at += base::StepUtf8(text, at).length) ++characters;
    offsets.push_back(characters);
    if (!piece.hidden) before += piece.bytes;
  }
  return offsets;
}

TEST(TextOffsets, AreTheSameStreamedAndWhole) {
  std::mt19937 random(35);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::vector<Piece>> all(2);
    std::vector<ChoiceOutput> choices;
    for (std::vector<Piece>& pieces : all) {
      pieces = AnyPieces(&random, kAnyBytes);
      ChoiceOutput& choice = choices.emplace_back(ChoiceOf(pieces));
      // As a stop string cuts it.
      choice.text = base::ReplaceInvalidUtf8(
          std::string_view(choice.text).substr(0, Below(&random, choice.text.size() + 1)));
    }
    const std::vector<Offsets> whole = Whole(choices);
    ASSERT_EQ(Streamed(choices), whole) << round;
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(whole[i], OffsetsByTheRule(all[i])) << round;
  }
}

TEST(TextOffsets, OfAsciiAreSumsOfLengths) {
  std::mt19937 random(36);
  for (int round = 0; round < 100; ++round) {
    const ChoiceOutput choice = ChoiceOf(AnyPieces(&random, kAscii));
    Offsets expected;
    for (const OutputToken& token : choice.tokens) {
      expected.push_back(static_cast<int64_t>(token.text_offset));
    }
    ASSERT_EQ(Whole({choice}).front(), expected) << round;
  }
}

// Also where the echo is not the text of its tokens, since the vocabulary normalized it.
TEST(TextOffsets, OfAnEchoPrecedeTheCompletions) {
  std::mt19937 random(37);
  for (int round = 0; round < 200; ++round) {
    ChoiceOutput choice = ChoiceOf(AnyPieces(&random, kAnyBytes));
    std::vector<Piece> prompt = AnyPieces(&random, kAnyBytes);
    for (Piece& piece : prompt) piece.hidden = false;
    choice.prompt_tokens = TokensOf(prompt);
    const std::string echo = round % 3 == 0 ? "other" : ChoiceOf(prompt).text;
    const Offsets whole = Whole({choice}, echo).front();
    ASSERT_EQ(Streamed({choice}, echo).front(), whole) << round;
    ASSERT_TRUE(std::is_sorted(whole.begin(), whole.end())) << round;
  }
}

}  // namespace
}  // namespace ropeway::api
