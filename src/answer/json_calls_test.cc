#include "answer/json_calls.h"

#include <gtest/gtest.h>

#include <string>

#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

TEST(JsonCallsTest, TextBehindABlockIsKept) {
  const auto both = [](const char* form, const std::string& text) {
    const ReadAnswer read = ReadEveryWay(form, text);
    return read.Calls() + read.text;
  };
  const std::string call = R"({"name": "f", "parameters": {}})";
  EXPECT_EQ(both("llama3_json", call + "; " + call), "f {}\nf {}\n");
  EXPECT_EQ(both("llama3_json", call + " éa"), "f {}\néa");
  EXPECT_EQ(both("llama3_json", call + "; {\"é"), "f {}\n; {\"é");
  EXPECT_EQ(both("llama3_json", call + "; {\"é\" and"), "f {}\n; {\"é\" and");
  EXPECT_EQ(both("llama3_json", R"({"name": "f", "parameters": {é)"), "f {\né");
  EXPECT_EQ(both("functools", "functools[" + call + ", x]"), "f {}\n, x]");
  EXPECT_EQ(both("llama3_json", call + " {\"foo\": 1"), "f {}\n{\"foo\": 1");
  EXPECT_EQ(both("functools", "functools[" + call + " x]"), "f {}\nx]");
}

}  // namespace
}  // namespace ropeway::answer
