#include "base/words.h"

#include <gtest/gtest.h>

namespace ropeway::base {
namespace {

TEST(Words, OneThingIsOne) {
  EXPECT_EQ(Counted(0, "thread"), "0 threads");
  EXPECT_EQ(Counted(size_t{1}, "thread"), "1 thread");
  EXPECT_EQ(Counted(int64_t{2}, "API key"), "2 API keys");
}

TEST(Words, ListsAreBounded) {
  EXPECT_EQ(Listed({}, 2), "none");
  EXPECT_EQ(Listed({"a"}, 2), "'a'");
  EXPECT_EQ(Listed({"a", "b"}, 2), "'a', 'b'");
  EXPECT_EQ(Listed({"a", "b", "c"}, 2), "'a', 'b' and 1 more");
}

TEST(ParseNumberTest, TakesANumberThatIsTheWholeText) {
  EXPECT_EQ(ParseNumber<int>("-17"), -17);
  EXPECT_EQ(ParseNumber<double>("0.25"), 0.25);
  for (const char* text : {"", "x", "1x", " 1", "1 ", "+1", "99999999999"}) {
    EXPECT_EQ(ParseNumber<int>(text), std::nullopt) << text;
  }
}

TEST(PercentDecodedTest, LeavesWhatIsNoEncoding) {
  EXPECT_EQ(PercentDecoded("a%2Fb%2fc%00"), std::string("a/b/c\0", 6));
  for (const char* text : {"", "%", "%4", "%4x", "100%", "%%", "% 41"}) {
    EXPECT_EQ(PercentDecoded(text), text);
  }
}

}  // namespace
}  // namespace ropeway::base
