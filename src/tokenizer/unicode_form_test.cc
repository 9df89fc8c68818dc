#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/characters.h"

namespace ropeway::tokenizer {
namespace {

std::string Composed(std::string_view text, size_t units) {
  Composer composer;
  composer.Begin(text);
  std::string out;
  bool done = false;
  while (!done) {
    Work work(units);
    done = composer.Run(&work, &out);
  }
  return out;
}

// The library's, of the whole text at once.
std::string WholeNfc(const std::string& text) {
  utf8proc_uint8_t* const bytes =
      utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  std::string result(reinterpret_cast<const char*>(bytes));
  std::free(bytes);
  return result;
}

TEST(ComposerTest, Composes) {
  EXPECT_EQ(Composed("", 1), "");
  EXPECT_EQ(Composed("plain", 1), "plain");
  EXPECT_EQ(Composed("e\u0301 o\u0302\u0323", 1), "\u00E9 \u1ED9");
  EXPECT_EQ(Composed("\u1112\u1161\u11AB", 1), "\uD55C");
  EXPECT_EQ(Composed("\u212B\u2126\u0958", 1), "\u00C5\u03A9\u0915\u093C");
  EXPECT_EQ(Composed(std::string_view("a\0\u0301", 4), 1), std::string("a\0\u0301", 4));
}

TEST(ComposerTest, ComposesInPartsWhatItComposesAsAWhole) {
  std::mt19937 random(51);
  const std::vector<std::string> parts = {
      "a",      "e",      "word ",  "\u0301", "\u0323", "\u0308", "\u00E9", "\u1112",
      "\u1161", "\u11AB", "\uD558", "\u09C7", "\u09BE", "\u0BC6", "\u0BD7", "\u0915",
      "\u093C", "\u4E00", "\u3099", "\u304B", "\u1E69", "\u0F71", "\u0F72", "\U0001D15E"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = random() % 30; i > 0; --i) text += parts[random() % parts.size()];
    ASSERT_EQ(Composed(text, 1 + random() % 40), WholeNfc(text)) << text;
  }
}

TEST(ComposerTest, ManyMarksTakeLinearTime) {
  std::string text = "a";
  for (int i = 0; i < 50'000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  EXPECT_EQ(Composed(text, 1000).size(), text.size());
}

TEST(UnicodeFormTest, DecomposesAndLowersOneCharacter) {
  std::u32string text;
  AppendDecomposed(U'\u1E69', &text);
  EXPECT_EQ(text, U"s\u0323\u0307");
  text.clear();
  AppendDecomposed(U'x', &text);
  AppendLowercase(U'\u00C9', &text);
  AppendLowercase(U'\u0130', &text);
  AppendLowercase(U'\u03A3', &text);
  EXPECT_EQ(text, U"x\u00E9i\u0307\u03C3");
}

TEST(UnicodeFormTest, KnowsTheKinds) {
  EXPECT_EQ(KindOf(U'a'), CharacterKind::kOther);
  EXPECT_EQ(KindOf(U'\u0301'), CharacterKind::kNonspacingMark);
  EXPECT_EQ(KindOf(U'\u0903'), CharacterKind::kMark);
  EXPECT_EQ(KindOf(U'!'), CharacterKind::kPunctuation);
  EXPECT_EQ(KindOf(U'\u3002'), CharacterKind::kPunctuation);
  EXPECT_EQ(KindOf(U'\u200B'), CharacterKind::kControl);
  EXPECT_EQ(KindOf(U'\uE000'), CharacterKind::kControl);
}

}  // namespace
}  // namespace ropeway::tokenizer
