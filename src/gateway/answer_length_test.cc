#include "gateway/answer_length.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ropeway::gateway {
namespace {

constexpr int32_t kNone = Usage::kUnknown;
constexpr int32_t kHuge = std::numeric_limits<int32_t>::max();

Delta TextOf(const std::string& text) {
  Delta delta;
  delta.text = text;
  return delta;
}

// Tokens with ids, and with their bytes where `bytes` is true.
Delta TokensOf(const std::vector<std::string>& texts, bool bytes = true) {
  Delta delta;
  for (const std::string& text : texts) {
    delta.text += text;
    OutputToken& token = delta.tokens.emplace_back();
    token.id = 5;
    if (bytes) token.bytes = text;
  }
  return delta;
}

// What is taken of `pieces`, and whether all is.
struct Taken {
  std::string text;
  size_t tokens = 0;
  bool all = true;
};
Taken TakeInto(AnswerLength* length, std::vector<Delta> pieces) {
  Taken taken;
  for (Delta& piece : pieces) {
    const bool all = length->Take(&piece);
    taken.text += piece.text;
    taken.tokens += piece.tokens.size();
    if (all) continue;
    taken.all = false;
    break;
  }
  return taken;
}
Taken TakeAll(std::optional<int32_t> most, std::vector<Delta> pieces) {
  AnswerLength length(most);
  return TakeInto(&length, std::move(pieces));
}

// `text` cut into pieces of so many bytes.
std::vector<Delta> Pieces(const std::string& text, size_t bytes) {
  std::vector<Delta> pieces;
  for (size_t at = 0; at < text.size(); at += bytes)
    pieces.push_back(TextOf(text.substr(at, bytes)));
  return pieces;
}

TEST(AnswerLength, TokensThatAreToldAreCountedStrictly) {
  const std::vector<Delta> twelve(12, TokensOf({"a"}));
  EXPECT_TRUE(TakeAll(12, twelve).all);
  EXPECT_TRUE(TakeAll(std::nullopt, twelve).all);
  const Taken taken = TakeAll(8, twelve);
  EXPECT_FALSE(taken.all);
  EXPECT_EQ(taken.text, "aaaaaaaa");
  EXPECT_EQ(taken.tokens, 8U);
  EXPECT_EQ(TakeAll(0, twelve).text, "");
}

TEST(AnswerLength, AnEventWithMoreTokensIsCutWhereTheyAre) {
  const Taken taken = TakeAll(2, {TokensOf({" a", " b\xC3\xA4", " c", " d"})});
  EXPECT_FALSE(taken.all);
  EXPECT_EQ(taken.text, " a b\xC3\xA4");
  EXPECT_EQ(taken.tokens, 2U);
  // Without the tokens' bytes it is not known where the text ends.
  EXPECT_EQ(TakeAll(2, {TokensOf({" a", " b", " c"}, false)}).text, "");
  // Half a character is none.
  EXPECT_EQ(TakeAll(1, {TokensOf({"a\xC3", "\xA4"})}).text, "a");
}

TEST(AnswerLength, TextThatWasHeldBackFollowsTheTokens) {
  AnswerLength length(3);
  const std::string rest(50, 'x');
  EXPECT_TRUE(TakeInto(&length, {TokensOf({"a"}), TokensOf({"b"}), TokensOf({"c"})}).all);
  EXPECT_EQ(TakeInto(&length, {TextOf(rest)}).text, rest);
  EXPECT_FALSE(TakeInto(&length, Pieces(std::string(40, 'y'), 1)).all);
  EXPECT_EQ(length.tokens(), 3);
}

TEST(AnswerLength, WordsBeyondWhatWasAskedForAreCut) {
  std::vector<Delta> words;
  std::string all;
  for (int i = 0; i < 48; ++i) words.push_back(TextOf(" w" + std::to_string(i)));
  EXPECT_EQ(TakeAll(8, words).text, " w0 w1 w2 w3 w4 w5 w6 w7");
  EXPECT_FALSE(TakeAll(8, words).all);
  EXPECT_TRUE(TakeAll(48, words).all);
  // All in one piece.
  for (const Delta& word : words) all += word.text;
  std::string much;
  for (int i = 0; i < 100; ++i) much += all;
  const Taken taken = TakeAll(8, {TextOf(much)});
  EXPECT_FALSE(taken.all);
  EXPECT_LE(taken.text.size(), 1000U);
  EXPECT_FALSE(TakeAll(2, Pieces(std::string(100, 'x'), 1)).all);
}

TEST(AnswerLength, NoHonestAnswerIsCut) {
  // In whatever pieces a proxy sends it: 9 tokens of a usual vocabulary.
  const std::string text = "The cable car leaves the valley, and rises.";
  for (size_t bytes = 1; bytes <= text.size(); ++bytes) {
    EXPECT_EQ(TakeAll(9, Pieces(text, bytes)).text, text) << bytes;
  }
  // Emoji, four bytes in three tokens each, and CJK, a token a character.
  std::vector<Delta> emoji;
  for (int i = 0; i < 5; ++i) emoji.push_back(TextOf("\xF0\x9F\x98\x80"));
  EXPECT_TRUE(TakeAll(15, emoji).all);
  EXPECT_TRUE(TakeAll(5, std::vector<Delta>(5, TextOf("\xE4\xB8\xAD"))).all);
  // A token in two pieces, as where thoughts end.
  EXPECT_TRUE(TakeAll(2, {TextOf("hm"), TextOf("."), TextOf(" yes")}).all);
  // A long token, and one with two words.
  EXPECT_TRUE(TakeAll(1, {TextOf(std::string(128, ' '))}).all);
  EXPECT_TRUE(TakeAll(1, {TextOf(" on the other hand")}).all);
  // One whose words are many, as no vocabulary has.
  EXPECT_TRUE(TakeAll(4, {TextOf(text + text + text + text), TextOf(" a"), TextOf(" b")}).all);
}

TEST(AnswerLength, ThoughtsAndCallsCountAsText) {
  const std::string words = " a b c d e f g h";
  std::string much;
  for (int i = 0; i < 400; ++i) much += words;
  Delta thought;
  thought.reasoning = much;
  thought.text = "text";
  thought.tool_calls = {{0, "id", "get", "{}"}};
  AnswerLength length(8);
  EXPECT_FALSE(length.Take(&thought));
  EXPECT_LT(thought.reasoning.size(), 1000U);
  EXPECT_TRUE(thought.text.empty() && thought.tool_calls.empty());
  // Of calls those before the cut stay, and no part of a name does.
  Delta calls;
  calls.tool_calls = {{0, "i", "get", "{}"}, {1, "j", "set", much}, {2, "k", "get", "{}"}};
  length = AnswerLength(8);
  EXPECT_FALSE(length.Take(&calls));
  ASSERT_EQ(calls.tool_calls.size(), 2U);
  EXPECT_LT(calls.tool_calls[1].arguments.size(), 1000U);
  Delta names;
  names.tool_calls = {{0, "i", "get", "{}"}, {1, "j", std::string(2000, 'x') + much, "{}"}};
  length = AnswerLength(8);
  EXPECT_FALSE(length.Take(&names));
  EXPECT_EQ(names.tool_calls.size(), 1U);
  // Behind tokens that are told a call is not cut, but left out.
  Delta told = TokensOf({"a", "b", "c"});
  std::swap(told.reasoning, told.text);
  told.tool_calls = {{0, "i", "get", "{}"}};
  length = AnswerLength(2);
  EXPECT_FALSE(length.Take(&told));
  EXPECT_EQ(told.reasoning, "ab");
  EXPECT_TRUE(told.tool_calls.empty());
  // An estimate has all of it; the marks around a call may be tokens too.
  Delta all;
  all.reasoning = "hm, ";
  all.text = "text";
  all.tool_calls = {{0, "id", "call", "{}  "}};
  length = AnswerLength(std::nullopt);
  EXPECT_TRUE(length.Take(&all));
  EXPECT_EQ(length.tokens(), 4);
  EXPECT_EQ(length.MostTokens(), 16 + 64 + 64);
}

TEST(AnswerLength, UsageIsBelievedAsFarAsItCanBe) {
  Request request;
  request.prompt = std::string("Hi");
  request.max_tokens = 8;
  AnswerLength length(8);
  TakeInto(&length, {TextOf("Hello"), TextOf(" world")});
  const auto believed = [&](const Usage& said, bool* changed) {
    *changed = false;
    return Believed(said, request, length, changed);
  };
  bool changed = false;
  Usage end = believed({3, 2, 3}, &changed);
  EXPECT_FALSE(changed);
  EXPECT_EQ(end.prompt_tokens, 3);
  EXPECT_EQ(end.completion_tokens, 2);
  EXPECT_EQ(end.cached_tokens, 3);

  end = believed({kHuge, kHuge, kHuge}, &changed);
  EXPECT_TRUE(changed);
  EXPECT_EQ(end.prompt_tokens, 18);
  EXPECT_EQ(end.completion_tokens, 8);
  EXPECT_EQ(end.cached_tokens, 18);
  EXPECT_EQ(believed({kNone, 9, kNone}, &changed).completion_tokens, 8);
  EXPECT_TRUE(changed);
  EXPECT_EQ(believed({kNone, 0, kNone}, &changed).completion_tokens, 1);
  EXPECT_TRUE(changed);
  EXPECT_EQ(believed({3, kNone, 4}, &changed).cached_tokens, 3);
  EXPECT_TRUE(changed);
  EXPECT_EQ(believed({kNone, kNone, kNone}, &changed).completion_tokens, kNone);
  EXPECT_FALSE(changed);
  // Thoughts are a part of the answer.
  EXPECT_EQ(believed({3, 2, 0, 2}, &changed).reasoning_tokens, 2);
  EXPECT_FALSE(changed);
  EXPECT_EQ(believed({3, 2, 0, 3}, &changed).reasoning_tokens, 2);
  EXPECT_TRUE(changed);
  EXPECT_EQ(believed({3, kNone, 0, kHuge}, &changed).reasoning_tokens, 8);
  EXPECT_TRUE(changed);
}

TEST(AnswerLength, WhereNothingBoundsTheOutputWhatCameDoes) {
  Request request;
  request.prompt = std::vector<TokenId>{1, 2, 3};
  for (const std::optional<int32_t> most : {std::optional<int32_t>(), std::optional(kHuge)}) {
    request.max_tokens = most;
    AnswerLength length(most);
    TakeInto(&length, {TextOf("Hello"), TextOf(" world")});
    bool changed = false;
    // A token a byte, and a few without text.
    EXPECT_EQ(Believed({kNone, kHuge, kNone}, request, length, &changed).completion_tokens, 75);
    EXPECT_TRUE(changed);
    EXPECT_EQ(Believed({kHuge, kNone, kNone}, request, length, &changed).prompt_tokens, 19);
  }
}

TEST(AnswerLength, AChatHasItsTemplateBesides) {
  Request request;
  request.prompt = Chat{.messages = {{"system", "Be brief."}, {"user", "Hi"}}};
  const AnswerLength length(8);
  bool changed = false;
  EXPECT_EQ(Believed({600, kNone, kNone}, request, length, &changed).prompt_tokens, 600);
  EXPECT_FALSE(changed);
  EXPECT_LT(Believed({kHuge, kNone, kNone}, request, length, &changed).prompt_tokens, 5000);
  EXPECT_TRUE(changed);
}

TEST(AnswerLength, ABackendCountsWhatItsAnswerGoesOnFrom) {
  Request request;
  request.prompt = std::string("Hi");
  request.max_tokens = 100;
  request.resume_ids = std::vector<TokenId>(90, 1);
  AnswerLength length(10);
  TakeInto(&length, std::vector<Delta>(10, TokensOf({"a"})));
  bool changed = false;
  EXPECT_EQ(Believed({kNone, 100, kNone}, request, length, &changed).completion_tokens, 100);
  EXPECT_FALSE(changed);
  EXPECT_EQ(Believed({kNone, 101, kNone}, request, length, &changed).completion_tokens, 100);
  EXPECT_TRUE(changed);
}

}  // namespace
}  // namespace ropeway::gateway
