#include "tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"

namespace ropeway {
namespace {

TEST(DetokenizerTest, HoldsBackAnIncompleteCharacter) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.Append("a\xF0"), "a");
  EXPECT_EQ(detokenizer.Append("\x9F\x98"), "");
  EXPECT_EQ(detokenizer.Append("\x80!"), "\xF0\x9F\x98\x80!");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(DetokenizerTest, EndsAnIncompleteCharacterWithOneReplacement) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.Append("x\xF0\x9F\x98"), "x");
  EXPECT_EQ(detokenizer.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Append("again"), "again");
}

TEST(DetokenizerTest, DoesNotWaitForBytesThatCannotHelp) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.Append("\xED"), "");
  EXPECT_EQ(detokenizer.Append("\xA0"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // A surrogate's beginning.
  EXPECT_EQ(detokenizer.Append("\xFF"), "\xEF\xBF\xBD");
}

TEST(DetokenizerTest, AnyCutGivesTheTextOfTheWhole) {
  std::mt19937 random(5);
  const std::string favourites =
      "a\x80\xBF\xC3\xE0\xA0\xE2\x82\xAC\xED\x9F\xF0\x90\x9F\xF4\x8F\xFF";
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (size_t i = random() % 24; i > 0; --i) {
      bytes.push_back(random() % 8 == 0 ? static_cast<char>(random())
                                        : favourites[random() % favourites.size()]);
    }
    Detokenizer detokenizer;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = 1 + random() % 4;
      const std::string part = detokenizer.Append(std::string_view(bytes).substr(at, length));
      EXPECT_EQ(ReplaceInvalidUtf8(part), part) << "not valid by itself";
      text += part;
      at += length;
    }
    text += detokenizer.Finish();
    ASSERT_EQ(text, ReplaceInvalidUtf8(bytes));
  }
}

}  // namespace
}  // namespace ropeway
