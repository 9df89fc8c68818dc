#include <gtest/gtest.h>

#include <string>

#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

std::string Mistral(const std::string& text) { return CallsAlone("mistral", text); }

TEST(MistralCallsTest, OlderModelsWriteAList) {
  EXPECT_EQ(
      Mistral("[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]"),
      "get_weather {\"city\": \"Paris\"}\n");
  EXPECT_EQ(Mistral("[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": \"]}\"}]}, "
                    "\"id\": \"abcdefghi\"}, {\"arguments\": {}, \"name\": \"g\"}]\n"),
            "f {\"a\": [1, {\"b\": \"]}\"}]}\ng {}\n");
  EXPECT_EQ(Mistral("[TOOL_CALLS]{\"name\": \"f\", \"arguments\": {}}"), "f {}\n");
}

TEST(MistralCallsTest, NewerModelsWriteNames) {
  EXPECT_EQ(Mistral("[TOOL_CALLS]get_weather[ARGS]{\"city\": \"東京 \\\"😀\\\" }[ARGS]\"}"),
            "get_weather {\"city\": \"東京 \\\"😀\\\" }[ARGS]\"}\n");
  EXPECT_EQ(Mistral("[TOOL_CALLS]f[ARGS]{\"a\": {\"b\": []}}[TOOL_CALLS]g[ARGS]{}"),
            "f {\"a\": {\"b\": []}}\ng {}\n");
  EXPECT_EQ(Mistral("[TOOL_CALLS]f{\"a\": 1}"), "f {\"a\": 1}\n") << "no mark of arguments";
  EXPECT_EQ(Mistral("[TOOL_CALLS] f [ARGS] {\"a\": 1}\n"), "f {\"a\": 1}\n");
}

TEST(MistralCallsTest, IdsAreKept) {
  const ReadAnswer read =
      ReadEveryWay("mistral", "[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{}[TOOL_CALLS]g[ARGS]{}");
  EXPECT_EQ(read.Calls(), "f {}\ng {}\n");
  ASSERT_EQ(read.calls.size(), 2U);
  EXPECT_EQ(read.calls[0].id, "a1B2c3D4e");
  EXPECT_EQ(read.calls[1].id.size(), 9U);
}

TEST(MistralCallsTest, TextMayStandBeside) {
  ReadAnswer read = ReadEveryWay("mistral", "Let me see. [TOOL_CALLS]f[ARGS]{} Done.");
  EXPECT_EQ(read.text, "Let me see. Done.");
  EXPECT_EQ(read.Calls(), "f {}\n");
  read = ReadEveryWay("mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}] Done.");
  EXPECT_EQ(read.text, "Done.");
  EXPECT_EQ(read.Calls(), "f {}\n");
}

TEST(MistralCallsTest, OtherBlocksAreText) {
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "mistral"});
  for (const char* text :
       {"[TOOL_CALLS]", "[TOOL_CALLS][]", "[TOOL_CALLS][1]", "[TOOL_CALLS]f", "[TOOL_CALLS]f[ARGS]",
        "[TOOL_CALLS]f[ARGS][1]", "[TOOL_CALLS][ARGS]{}", "[TOOL_CALLS]f g{}", "[TOOL_CALLS]f(1)",
        "[TOOL_CALLS][{\"arguments\": {}}]", "[TOOL_CALLS][{\"name\": 5}]",
        "[TOOL_CALLS]f[CALL_ID]a", "[TOOL_CALLS][{\"nam"}) {
    const ReadAnswer read = ReadPieces(format, {.tools = TestTools()}, {text});
    EXPECT_EQ(read.Calls(), "") << text;
    EXPECT_EQ(read.text, text);
  }
}

TEST(MistralCallsTest, CutCallsEndAsTheyStand) {
  const auto cut = [](const std::string& text) {
    const ReadAnswer read = ReadEveryWay("mistral", text);
    EXPECT_EQ(read.text, "");
    return read.Calls();
  };
  EXPECT_EQ(cut("[TOOL_CALLS]f[ARGS]{\"a\": \"Par"), "f {\"a\": \"Par\n");
  EXPECT_EQ(cut("[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1"), "f {\"a\": 1\n");
}

TEST(MistralCallsTest, TheBlockEndsBeforeWhatIsNoCall) {
  const auto both = [](const std::string& text) {
    const ReadAnswer read = ReadEveryWay("mistral", text);
    return read.Calls() + read.text;
  };
  EXPECT_EQ(both("[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, and"), "f {}\n, and");
  EXPECT_EQ(both("[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"nam"), "f {}\n, {\"nam");
  EXPECT_EQ(both("[TOOL_CALLS]f[ARGS]{\"a\": [}] so"), "f {\"a\": [\n}] so");
}

}  // namespace
}  // namespace ropeway::answer
