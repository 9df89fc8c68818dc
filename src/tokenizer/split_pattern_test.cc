#include "tokenizer/split_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ropeway {
namespace {

// A group that repeats: compiled code pushes a frame for each round, so long text fills its stack.
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

TEST(SplitPatternTest, AWrongPatternIsRefused) {
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
}  // namespace ropeway
