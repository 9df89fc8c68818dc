#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ropeway::tokenizer {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces Split(const std::string& name, std::string_view text) {
  const StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(name);
  EXPECT_TRUE(pre_tokenizer.ok());
  return pre_tokenizer.ok() ? pre_tokenizer->Split(text) : Pieces{};
}

// The expected pieces are those of Hugging Face `tokenizers`; scripts/check_tokenizer.py compares
// thousands more.
TEST(PreTokenizerTest, EachFamilyHasItsOwnPieces) {
  constexpr std::string_view kText = "We'LL see 1234  x!!\n\n y";
  EXPECT_EQ(Split("gpt-2", kText),
            (Pieces{"We", "'", "LL", " see", " 1234", " ", " x", "!!", "\n\n", " y"}));
  EXPECT_EQ(Split("smollm", kText), (Pieces{"We", "'", "LL", " see", " ", "1", "2", "3", "4", " ",
                                            " x", "!!", "\n\n", " y"}));
  EXPECT_EQ(Split("llama-bpe", kText),
            (Pieces{"We", "'LL", " see", " ", "123", "4", " ", " x", "!!\n\n", " y"}));
  EXPECT_EQ(Split("qwen2", kText),
            (Pieces{"We", "'LL", " see", " ", "1", "2", "3", "4", " ", " x", "!!\n\n", " y"}));
  EXPECT_EQ(Split("gpt-4o", kText),
            (Pieces{"We'LL", " see", " ", "123", "4", " ", " x", "!!\n\n", " y"}));
  EXPECT_EQ(Split("tekken", kText),
            (Pieces{"We", "'LL", " see", " ", "1", "2", "3", "4", " ", " x", "!!\n\n", " y"}));
  EXPECT_EQ(Split("deepseek-v3", kText),
            (Pieces{"We", "'LL", " see", " ", "123", "4", " ", " x", "!!\n\n", " y"}));
  EXPECT_EQ(Split("deepseek-coder", kText), (Pieces{"We", "'", "LL", " see", " ", "1", "2", "3",
                                                    "4", " ", " x", "!!", "\n", "\n", " y"}));
  EXPECT_EQ(Split("falcon", kText),
            (Pieces{"We", "'", "LL", " see", " ", "123", "4", " ", " x", "!!", "\n\n", " y"}));
}

TEST(PreTokenizerTest, FamiliesDifferInLetters) {
  EXPECT_EQ(Split("gpt-4o", "HTTPServer camelCase ABC"),
            (Pieces{"HTTPServer", " camel", "Case", " ABC"}));
  // Of a letter with marks, and of digits that a byte's letter is.
  EXPECT_EQ(Split("qwen2", "n\u0303a"), (Pieces{"n", "\u0303a"}));
  EXPECT_EQ(Split("qwen35", "n\u0303a"), (Pieces{"n\u0303a"}));
  EXPECT_EQ(Split("falcon", "\u00F2"), (Pieces{"\xC3", "\xB2"}));
  EXPECT_EQ(Split("falcon", "a$!\u061Db"), (Pieces{"a", "$!", "\u061D", "b"}))
      << "U+061D was no punctuation in Unicode 8";
  EXPECT_EQ(Split("deepseek-llm", "ab 12  \u4E00\u4E8C c  "),
            (Pieces{"ab", " ", "1", "2", "  ", "\u4E00\u4E8C", " c", "  "}));
}

TEST(PreTokenizerTest, FilesWithoutANameHaveGpt2s) {
  EXPECT_EQ(Split("", "I'LL 1234"), Split("gpt-2", "I'LL 1234"));
  EXPECT_EQ(Split("default", "I'LL 1234"), Split("gpt-2", "I'LL 1234"));
}

TEST(PreTokenizerTest, PatternsOfAFileSplitOneAfterTheOther) {
  const StatusOr<PreTokenizer> made = PreTokenizer::Create({R"([0-9]+)", R"(\s)"}, true);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->Split("a 12b\u00A0c"), (Pieces{"a", " ", "12", "b", "\u00A0", "c"}));
  EXPECT_TRUE(made->ignore_merges());
  EXPECT_FALSE(PreTokenizer::Create({"a", "(b"}, true).ok());
  // It would cut characters.
  EXPECT_FALSE(PreTokenizer::Create({R"(\C)"}, true).ok());
}

TEST(PreTokenizerTest, SmollmSeesNothingBeyondADigit) {
  EXPECT_EQ(Split("smollm", "a  1"), (Pieces{"a", "  ", "1"}));
  EXPECT_EQ(Split("gpt-2", "a  1"), (Pieces{"a", " ", " 1"}));
}

TEST(PreTokenizerTest, SpaceIsWhatUnicodeCallsWhiteSpace) {
  EXPECT_EQ(Split("gpt-2", "a\u00a0\u3000b"), (Pieces{"a", "\u00a0", "\u3000", "b"}));
  // U+180E is none, but was in older Unicode (and is in PCRE2).
  EXPECT_EQ(Split("gpt-2", "a!\u180e!"), (Pieces{"a", "!\u180e!"}));
}

TEST(PreTokenizerTest, AliasesMeanTheSame) {
  EXPECT_EQ(Split("llama3", "I'LL 1234"), Split("llama-bpe", "I'LL 1234"));
  EXPECT_EQ(Split("llama-v3", "I'LL 1234"), Split("llama-bpe", "I'LL 1234"));
}

TEST(PreTokenizerTest, OthersAreRejectedByName) {
  const StatusOr<PreTokenizer> unknown = PreTokenizer::Create("viking");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().message(),
            "tokenizer.ggml.pre: \"viking\" is not supported; supported: gpt-2, smollm, llama-bpe, "
            "dbrx, glm4, qwen2, qwen35, gpt-4o, tekken, falcon, deepseek-llm, deepseek-coder, "
            "deepseek-v3");
}

// A repeated group: compiled code pushes a frame per repetition, so long text fills its stack.
constexpr const char* kDeep = R"((?:(a)|(b))+c|.)";

std::string Join(const std::vector<std::string_view>& pieces) {
  std::string text;
  for (const std::string_view piece : pieces) text += piece;
  return text;
}

SplitPattern MakePattern(const std::string& expression, SplitPattern::Limits limits = {}) {
  StatusOr<SplitPattern> pattern = SplitPattern::Create(expression, limits);
  EXPECT_TRUE(pattern.ok()) << pattern.status().message();
  return *std::move(pattern);
}

TEST(SplitPatternTest, MatchesAndWhatLiesBetweenThemArePieces) {
  const SplitPattern pattern = MakePattern("[0-9]+");
  std::vector<std::string_view> pieces;
  pattern.Split({"ab12", "3c", ""}, pieces);
  EXPECT_EQ(pieces, (std::vector<std::string_view>{"ab", "12", "3", "c"}));
}

TEST(SplitPatternTest, EachTextEndsForItself) {
  const SplitPattern pattern = MakePattern(R"(\s+(?!\S)|.)");
  std::vector<std::string_view> together;
  pattern.Split({"  1"}, together);
  EXPECT_EQ(together, (std::vector<std::string_view>{" ", " ", "1"}));
  std::vector<std::string_view> apart;
  pattern.Split({"  ", "1"}, apart);
  EXPECT_EQ(apart, (std::vector<std::string_view>{"  ", "1"}));
}

TEST(SplitPatternTest, AWrongPatternIsRejected) {
  const StatusOr<SplitPattern> pattern = SplitPattern::Create("a(b");
  ASSERT_FALSE(pattern.ok());
  EXPECT_NE(pattern.status().message().find("byte 3"), std::string::npos);
}

TEST(SplitPatternTest, AFullStackIsFollowedByALargerOne) {
  const SplitPattern pattern = MakePattern(kDeep, {.jit_stack_bytes = size_t{64} << 20U});
  const std::string text = std::string(20'000, 'a') + "c";
  std::vector<std::string_view> pieces;
  const SplitPattern::Detours detours = pattern.Split({text}, pieces);
  EXPECT_EQ(pieces.size(), 1U);
  EXPECT_GT(detours.large_stack, 0U);
  EXPECT_EQ(detours.interpreted, 0U);
}

TEST(SplitPatternTest, AStackThatCannotGrowIsFollowedByTheInterpreter) {
  const SplitPattern pattern = MakePattern(kDeep, {.jit_stack_bytes = size_t{32} << 10U});
  const std::string text = std::string(20'000, 'a') + "c";
  std::vector<std::string_view> pieces;
  const SplitPattern::Detours detours = pattern.Split({text}, pieces);
  EXPECT_EQ(pieces.size(), 1U);
  EXPECT_GT(detours.interpreted, 0U);
  EXPECT_EQ(detours.cut, 0U);
}

TEST(SplitPatternTest, WhatNoMatcherCanEndIsCutAtWholeCharacters) {
  const SplitPattern pattern = MakePattern(
      R"((?:(ä)|(b))+c|.)",
      {.jit_stack_bytes = size_t{32} << 10U, .heap_limit_kib = 64, .match_limit = 100'000});
  std::string text = "b";
  for (int i = 0; i < 20'000; ++i) text += "ä";
  text += "c";
  std::vector<std::string_view> pieces;
  const SplitPattern::Detours detours = pattern.Split({text}, pieces);
  EXPECT_GT(detours.cut, 0U);
  EXPECT_EQ(Join(pieces), text);
  // 1 byte and 4,095 more would end inside a character, so the first piece takes one byte more.
  EXPECT_EQ(pieces.front().size(), SplitPattern::kCutBytes + 1);
  std::vector<std::string_view> again;
  pattern.Split({text}, again);
  EXPECT_EQ(again, pieces);
}

TEST(SplitPatternTest, AMatchThatTakesTooLongIsCut) {
  const SplitPattern pattern = MakePattern("(?:(?:x+)+)+y|.", {.match_limit = 10'000});
  const std::string text(5000, 'x');
  std::vector<std::string_view> pieces;
  const SplitPattern::Detours detours = pattern.Split({text}, pieces);
  EXPECT_GT(detours.cut, 0U);
  EXPECT_EQ(Join(pieces), text);
}

}  // namespace

}  // namespace ropeway::tokenizer
