#include "base/tool_calls.h"

#include <gtest/gtest.h>

#include <vector>

namespace ropeway::base {
namespace {

TEST(ToolCalls, PiecesOfACallAreOneCall) {
  std::vector<ToolCall> calls;
  EXPECT_TRUE(AddCall({0, "call_1", "f", ""}, &calls));
  EXPECT_FALSE(AddCall({0, "", "", "{\"a\":"}, &calls));
  EXPECT_TRUE(AddCall({1, "call_2", "g", "{}"}, &calls));
  EXPECT_FALSE(AddCall({0, "", "", "1}"}, &calls)) << "behind the next one has begun";
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].id, "call_1");
  EXPECT_EQ(calls[0].name, "f");
  EXPECT_EQ(calls[0].arguments, "{\"a\":1}");
  EXPECT_EQ(calls[1].name, "g");
}

TEST(ToolCalls, ACallWhoseOneBeforeIsMissingIsLeftOut) {
  std::vector<ToolCall> calls;
  EXPECT_FALSE(AddCall({1, "call_2", "g", "{}"}, &calls));
  EXPECT_FALSE(AddCall({-1, "call_0", "e", "{}"}, &calls));
  EXPECT_TRUE(calls.empty());
}

}  // namespace
}  // namespace ropeway::base
