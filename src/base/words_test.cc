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

}  // namespace
}  // namespace ropeway::base
