#include "engine/session_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_whole_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::engine {
namespace {

// Tokens of more than one byte.
class WordTokenizer : public tokenizer::WholeTokenizer {
 public:
  static constexpr TokenId kHello = 0;
  static constexpr TokenId kWor = 1;
  static constexpr TokenId kLd = 2;
  static constexpr TokenId kEnd = 3;
  static constexpr TokenId kUser = 4;

  explicit WordTokenizer(std::vector<std::string> words = {"Hello", " wor", "ld!", "<end>",
                                                           "<user>", "\xE2\x82", "\xAC"})
      : words_(std::move(words)) {}

  std::vector<TokenId> Encode(std::string_view, const tokenizer::EncodeOptions&) const override {
    return {};
  }
  std::string_view Bytes(TokenId id, bool with_special) const override {
    if (IsSpecial(id) && !with_special) return {};
    return words_[static_cast<size_t>(id)];
  }
  bool IsEnd(TokenId id) const override { return id == kEnd; }
  bool IsSpecial(TokenId id) const override { return id == kEnd || id == kUser; }
  int32_t vocab_size() const override { return static_cast<int32_t>(words_.size()); }
  std::optional<TokenId> Find(std::string_view) const override { return std::nullopt; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return kEnd; }

 private:
  const std::vector<std::string> words_;
};

using T = WordTokenizer;
using Ids = std::vector<TokenId>;

store::SessionState ChatState(Ids ids, int32_t end_ids) {
  store::SessionState state;
  state.kind = store::SessionState::Kind::kChat;
  state.ids = std::move(ids);
  state.end_ids = end_ids;
  return state;
}

TEST(FindHistory, ATemplateThatExtendsItKeepsAllIds) {
  const auto kept = FindHistory(T(), ChatState({T::kUser, T::kHello, T::kEnd}, 1),
                                "<user>Hello<end>\n<user>more");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ids, 3U);
  EXPECT_EQ(kept->bytes, std::string("<user>Hello<end>").size());
}

TEST(FindHistory, AnotherEndOfTheMessageLeavesOutTheEndTokenAlone) {
  const auto kept =
      FindHistory(T(), ChatState({T::kUser, T::kHello, T::kEnd}, 1), "<user>Hello</s><user>more");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ids, 2U);
  EXPECT_EQ(kept->bytes, std::string("<user>Hello").size());
  // One of two end tokens is as good as none.
  const auto two = FindHistory(T(), ChatState({T::kHello, T::kEnd, T::kEnd}, 2), "Hello<end>\n");
  ASSERT_TRUE(two);
  EXPECT_EQ(two->ids, 1U);
  EXPECT_EQ(two->bytes, 5U);
}

TEST(FindHistory, AnAnswerWithoutAnEndIsExtendedTheSameWay) {
  const auto kept = FindHistory(T(), ChatState({T::kUser, T::kHello}, 0), "<user>Hello<end>\n");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ids, 2U);
}

TEST(FindHistory, AChangedHistoryIsNotKept) {
  const store::SessionState state = ChatState({T::kUser, T::kHello, T::kWor, T::kEnd}, 1);
  for (const char* text :
       {"<user>Hello ", "<user>hello wor<end>", "", "<user>", "Hello wor<end>"}) {
    EXPECT_FALSE(FindHistory(T(), state, text)) << text;
  }
}

// Spaces that the tokenizer writes and those that its added tokens take along.
TEST(FindHistory, KnowsWhatWhiteSpaceATokenizerOfWordsChanges) {
  tokenizer::Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.tokens = {"<unk>", "<s>", "<u>", "\u2581", "H", "i", "\u2581Hi", "Hi"};
  vocabulary.types = {2, 3, 3, 1, 1, 1, 1, 1};
  vocabulary.scores = {0, 0, 0, -4, -3, -3, -2, -1};
  vocabulary.space_prefix = tokenizer::SpacePrefix::kEach;
  vocabulary.strip_right = {2};
  const auto made = tokenizer::MakeTokenizer(vocabulary);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::string history = "<s>Hi<u>\nHi Hi";
  const Ids ids = (*made)->Encode(history, {.add_special = false});
  EXPECT_EQ(ids, (Ids{1, 6, 2, 6, 6}));
  const auto kept = FindHistory(**made, ChatState(ids, 0), history + "<u> more");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ids, ids.size());
  EXPECT_EQ(kept->bytes, history.size());
  EXPECT_FALSE(FindHistory(**made, ChatState(ids, 0), "<s>Hi<u>Hi-Hi"));
}

store::SessionState Kept(store::SessionState::Kind kind, Ids generated, const std::string& answer) {
  store::SessionState next;
  next.kind = kind;
  next.ids = {T::kUser};
  next.ids.insert(next.ids.end(), generated.begin(), generated.end());
  const T tokenizer;
  KeepAnswer(
      tokenizer, [&](TokenId id) { return tokenizer.IsSpecial(id); }, 1, answer, &next);
  return next;
}

TEST(KeepAnswer, AWholeAnswerStaysAsItWasSampled) {
  const store::SessionState chat =
      Kept(store::SessionState::Kind::kChat, {T::kHello, T::kWor, T::kLd, T::kEnd}, "Hello world!");
  EXPECT_EQ(chat.ids, (Ids{T::kUser, T::kHello, T::kWor, T::kLd, T::kEnd}));
  EXPECT_EQ(chat.end_ids, 1);
  EXPECT_EQ(chat.tail, "");
  const store::SessionState cut =
      Kept(store::SessionState::Kind::kChat, {T::kHello, T::kWor}, "Hello wor");
  EXPECT_EQ(cut.ids, (Ids{T::kUser, T::kHello, T::kWor}));
  EXPECT_EQ(cut.end_ids, 0);
}

TEST(KeepAnswer, TextGoesOnWithoutTheEndToken) {
  const store::SessionState text =
      Kept(store::SessionState::Kind::kText, {T::kHello, T::kEnd}, "Hello");
  EXPECT_EQ(text.ids, (Ids{T::kUser, T::kHello}));
  EXPECT_EQ(text.end_ids, 0);
  // One in the middle, with ignore_eos, was computed with: it stays.
  const store::SessionState middle =
      Kept(store::SessionState::Kind::kText, {T::kHello, T::kEnd, T::kHello}, "HelloHello");
  EXPECT_EQ(middle.ids, (Ids{T::kUser, T::kHello, T::kEnd, T::kHello}));
}

TEST(KeepAnswer, WhatAStopStringCutOffIsDropped) {
  // The stop string was "world": at a token's edge except for its space.
  const store::SessionState inside =
      Kept(store::SessionState::Kind::kChat, {T::kHello, T::kWor, T::kLd}, "Hello ");
  EXPECT_EQ(inside.ids, (Ids{T::kUser, T::kHello}));
  EXPECT_EQ(inside.tail, " ");
  EXPECT_EQ(inside.end_ids, 0);
  const store::SessionState edge =
      Kept(store::SessionState::Kind::kText, {T::kHello, T::kWor, T::kLd}, "Hello");
  EXPECT_EQ(edge.ids, (Ids{T::kUser, T::kHello}));
  EXPECT_EQ(edge.tail, "");
  const store::SessionState all = Kept(store::SessionState::Kind::kText, {T::kHello}, "");
  EXPECT_EQ(all.ids, Ids{T::kUser});
}

TEST(KeepAnswer, BytesThatAreNoTextAreKeptAsTheTextThatWasShown) {
  const store::SessionState whole =
      Kept(store::SessionState::Kind::kText, {T::kHello, 5, 6}, "Hello\xE2\x82\xAC");
  EXPECT_EQ(whole.ids, (Ids{T::kUser, T::kHello, 5, 6}));
  const store::SessionState half =
      Kept(store::SessionState::Kind::kText, {T::kHello, 5}, "Hello\xEF\xBF\xBD");
  EXPECT_EQ(half.ids, (Ids{T::kUser, T::kHello}));
  EXPECT_EQ(half.tail, "\xEF\xBF\xBD");
}

TEST(VocabularyDigest, DiffersWhereTheVocabularyDoes) {
  const std::string digest = VocabularyDigest(T());
  EXPECT_EQ(digest, VocabularyDigest(T()));
  EXPECT_NE(digest, VocabularyDigest(T({"Hello", " worl", "d!", "<end>", "<user>", "x", "y"})));
  EXPECT_NE(digest, VocabularyDigest(T({"Hello", " wor", "ld!", "<end>", "<user>"})));
  // A token that is not one in another vocabulary is drawn in this one alone.
  class WithoutHello final : public T {
    bool IsUnused(TokenId id) const override { return id == kHello; }
  };
  EXPECT_NE(digest, VocabularyDigest(WithoutHello()));
  // The same tokens, but texts become other ones of them: by a normalizer, by a token in front.
  class WithAnEncoding final : public T {
    Ids Encode(std::string_view, const tokenizer::EncodeOptions&) const override {
      return {kHello};
    }
  };
  EXPECT_NE(digest, VocabularyDigest(WithAnEncoding()));
  class WithoutAnEncoding final : public T {
    Ids Encode(std::string_view, const tokenizer::EncodeOptions&) const override {
      throw tokenizer::EncodingError("too many steps");
    }
  };
  EXPECT_NE(digest, VocabularyDigest(WithoutAnEncoding()));
}

}  // namespace
}  // namespace ropeway::engine
