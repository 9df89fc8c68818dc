#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/split_patterns.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::tokenizer {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces Split(const std::string& name, std::string_view text) {
  const StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(name);
  EXPECT_TRUE(pre_tokenizer.ok());
  return pre_tokenizer.ok() ? pre_tokenizer->Split(text) : Pieces{};
}

// The expected pieces come from Hugging Face `tokenizers`; scripts/check_tokenizer.py compares
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
  // A letter with marks, and digits that are a byte's letter.
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

TEST(PreTokenizerTest, ALongLookIsLeftBetweenItsPlaces) {
  const StatusOr<PreTokenizer> made = PreTokenizer::Create({"a+[bc]"}, false);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::string text(700, 'a');
  PreTokenizer::Cursor cursor(&*made);
  cursor.Begin(text);
  std::string_view piece;
  SplitStep step = SplitStep::kPause;
  int calls = 0;
  for (; step == SplitStep::kPause && calls < 1000; ++calls) {
    Work work(4096);
    step = cursor.Next(&work, &piece);
  }
  EXPECT_EQ(step, SplitStep::kPiece);
  EXPECT_EQ(piece, text);
  EXPECT_GE(calls, 3);
}

TEST(PreTokenizerTest, PatternsShareTheStepsOfAText) {
  const std::string text(800, 'a');
  const auto one = PreTokenizer::Create({"a+[bc]"}, false);
  EXPECT_EQ(one->Split(text), Pieces{text});
  const auto many = PreTokenizer::Create(std::vector<std::string>(31, "a+[bc]"), false);
  EXPECT_THROW(many->Split(text), EncodingError);
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
}

TEST(SplitPatternTest, WhatNoMatcherCanEndIsAnError) {
  const SplitPattern pattern = MakePattern(
      R"((?:(ä)|(b))+c|.)",
      {.jit_stack_bytes = size_t{32} << 10U, .heap_limit_kib = 64, .match_limit = 100'000});
  std::string text = "b";
  for (int i = 0; i < 20'000; ++i) text += "ä";
  text += "c";
  std::vector<std::string_view> pieces;
  EXPECT_THROW(pattern.Split({text}, pieces), EncodingError);
}

TEST(SplitPatternTest, AMatchThatTakesTooLongIsAnError) {
  const std::string text(5000, 'x');
  for (const bool counts_steps : {false, true}) {
    const SplitPattern pattern =
        MakePattern("(?:(?:x+)+)+y|.", {.match_limit = 10'000, .counts_steps = counts_steps});
    std::vector<std::string_view> pieces;
    EXPECT_THROW(pattern.Split({text}, pieces), EncodingError);
  }
}

// No match takes long here, but there is one to try at each place.
TEST(SplitPatternTest, ManyMatchesThatTakeTooLongAreAnError) {
  const SplitPattern pattern = MakePattern("a+[bc]");
  std::vector<std::string_view> pieces;
  EXPECT_THROW(pattern.Split({std::string(100'000, 'a')}, pieces), EncodingError);
}

TEST(SplitPatternTest, CountedStepsMakeTheSamePieces) {
  const std::string expression(FindSplitFamily("llama-bpe")->expressions.front().text);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "We'LL see 1234  \u00e4x!!\n\n y\u3000";
  std::vector<std::string_view> counted;
  MakePattern(expression).Split({text}, counted);
  std::vector<std::string_view> uncounted;
  MakePattern(expression, {.counts_steps = false}).Split({text}, uncounted);
  EXPECT_EQ(counted, uncounted);
  EXPECT_EQ(Join(counted), text);
}

// Else it would begin before the place where it was looked for, and splitting would not go on.
TEST(SplitPatternTest, AMatchCannotSetItsBeginning) {
  const auto error = [](const std::string& expression) {
    return SplitPattern::Create(expression).status().message();
  };
  EXPECT_EQ(error(R"((?<=(?&k))(?(DEFINE)(?<k>\Ka)))"),
            R"(the pattern has \K, which is not supported)");
  EXPECT_FALSE(SplitPattern::Create(R"(a\\\Kb)").ok());
  EXPECT_FALSE(SplitPattern::Create(R"(\c\\Kb)").ok());
  EXPECT_FALSE(SplitPattern::Create("\\Q\\\\E\\Ka").ok());
  EXPECT_FALSE(SplitPattern::Create("(*UCP)a").ok());
  EXPECT_FALSE(SplitPattern::Create("a(*SKIP)b").ok());
  EXPECT_FALSE(SplitPattern::Create("(?C1)a").ok());
  // These have none of it.
  EXPECT_TRUE(SplitPattern::Create(R"(\\Ka|\(*|[(*]|(?:C))").ok());
}

}  // namespace

}  // namespace ropeway::tokenizer
