#include "tokenizer/characters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace ropeway::tokenizer {
namespace {

TEST(CharactersTest, FindsTheSpaceAtBothEnds) {
  EXPECT_EQ(LeadingSpace(" \t\u3000x "), 5U);
  EXPECT_EQ(LeadingSpace(""), 0U);
  EXPECT_EQ(LeadingSpace("\u200B"), 0U);
  EXPECT_EQ(TrailingSpace(" x\u00A0\n\u2028"), 6U);
  EXPECT_EQ(TrailingSpace("  "), 2U);
  EXPECT_EQ(TrailingSpace("x"), 0U);
  // Not the end of another character, nor a part of one.
  EXPECT_EQ(TrailingSpace("\u00E0"), 0U);
  EXPECT_EQ(TrailingSpace("\xA0"), 0U);
  EXPECT_EQ(TrailingSpace("x \x80\x80\x80"), 0U);
}

TEST(CharactersTest, KnowsTheBytesOfSpaces) {
  for (const char byte : std::string_view(" \t\n\u00A0\u1680\u2028\u3000")) {
    EXPECT_TRUE(IsByteOfSpace(static_cast<uint8_t>(byte)));
  }
  EXPECT_FALSE(IsByteOfSpace('x'));
  EXPECT_FALSE(IsByteOfSpace(0xC3));
}

TEST(CharactersTest, BytesThatAreNotUtf8AreCharacters) {
  EXPECT_EQ(CharacterLength("\u3000", 0), 3U);
  EXPECT_EQ(CharacterLength("\u3000", 1), 1U);
  EXPECT_EQ(CharacterLength("\xE3\x80", 0), 1U);
}

}  // namespace
}  // namespace ropeway::tokenizer
