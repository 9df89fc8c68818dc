#include "base/split_name.h"

#include <gtest/gtest.h>

namespace ropeway::base {
namespace {

TEST(SplitNameTest, ReadsNumberAndCount) {
  const auto name = ParseSplitName("models/big-00002-of-00013.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "models/big");
  EXPECT_EQ(name->number, 2U);
  EXPECT_EQ(name->count, 13U);
  EXPECT_EQ(name->Part(1), "models/big-00001-of-00013.gguf");
  EXPECT_EQ(name->Part(13), "models/big-00013-of-00013.gguf");
}

TEST(SplitNameTest, OtherNamesAreNone) {
  for (const char* name :
       {"", ".gguf", "a.gguf", "a-1-of-3.gguf", "a-00001-of-00003", "a-00004-of-00003.gguf",
        "a-00000-of-00003.gguf", "a00001-of-00003.gguf", "a-00001of00003.gguf",
        "-00001-of-0000x.gguf", "00003.gguf", "a-00001-of-00003.safetensors"}) {
    EXPECT_FALSE(ParseSplitName(name).has_value()) << name;
  }
  EXPECT_TRUE(ParseSplitName("-00001-of-00001.gguf").has_value());
}

}  // namespace
}  // namespace ropeway::base
