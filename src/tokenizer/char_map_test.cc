#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tokenizer/sentencepiece_normalizer.h"
#include "tokenizer/test_char_map.h"

namespace ropeway::tokenizer {
namespace {

CharMap MakeCharMap(const std::string& bytes) {
  StatusOr<CharMap> map = CharMap::Create(bytes);
  EXPECT_TRUE(map.ok()) << map.status().message();
  return *std::move(map);
}

std::string Mapped(const CharMap& map, std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CharMap::Mapping found = map.Find(text, at);
    out += found.length > 0 ? found.to : text.substr(at, 1);
    at += found.length > 0 ? found.length : 1;
  }
  return out;
}

TEST(CharMapTest, TheLongestBeginningIsMapped) {
  const CharMap map = MakeCharMap(WriteCharMap(
      {{"ﬁ", "fi"}, {"e\u0301", "é"}, {"\t", " "}, {"ab", "X"}, {"abcd", "Y"}, {"\x07", ""}}));
  EXPECT_EQ(Mapped(map, "ﬁn e\u0301\te"), "fin é e");
  EXPECT_EQ(Mapped(map, "abab abcd abce abc"), "XX Y Xce Xc");
  EXPECT_EQ(Mapped(map, "a\x07z"), "az");
  EXPECT_EQ(map.Find(std::string_view("a\0b", 3), 1).length, 0U);
  EXPECT_EQ(map.Find("ab", 0).to, "X");
}

TEST(CharMapTest, WithoutATableNothingIs) { EXPECT_EQ(Mapped(MakeCharMap(""), "abc"), "abc"); }

TEST(CharMapTest, WhatIsNoTableIsRejectedByName) {
  const std::string good = WriteCharMap({{"a", "b"}});
  for (const std::string& bytes :
       {std::string("x"), std::string("\xFF\xFF\xFF\xFF...."), std::string("\0\0\0\0x\0", 6),
        std::string("\x03\0\0\0abcdef\0", 11), good.substr(0, good.size() - 1),
        good.substr(0, good.size() / 2)}) {
    const StatusOr<CharMap> map = CharMap::Create(bytes);
    ASSERT_FALSE(map.ok());
    EXPECT_EQ(map.status().field(), "tokenizer.ggml.precompiled_charsmap");
  }
}

// An array of any numbers maps within its texts.
TEST(CharMapTest, AWrongArrayHarmsNobody) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    std::string bytes("\x00\x04\x00\x00", 4);
    for (int i = 0; i < 1024; ++i) bytes.push_back(static_cast<char>(random()));
    bytes += std::string("some\0texts\0", 11);
    const CharMap map = MakeCharMap(bytes);
    std::string text;
    for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(random()));
    for (size_t at = 0; at < text.size(); ++at) {
      const CharMap::Mapping found = map.Find(text, at);
      ASSERT_LE(at + found.length, text.size());
      ASSERT_LE(found.to.size(), 5U);
    }
  }
}

}  // namespace
}  // namespace ropeway::tokenizer
