#include <gtest/gtest.h>

#include <string>

#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

// "{BEGIN}", "{CALL}" and so on stand for the marks.
std::string WithKimiMarks(std::string text) {
  const std::pair<const char*, const char*> marks[] = {{"{BEGIN}", "<|tool_calls_section_begin|>"},
                                                       {"{END}", "<|tool_calls_section_end|>"},
                                                       {"{CALL}", "<|tool_call_begin|>"},
                                                       {"{DONE}", "<|tool_call_end|>"},
                                                       {"{ARGS}", "<|tool_call_argument_begin|>"}};
  for (const auto& [name, mark] : marks) {
    for (size_t at = text.find(name); at != text.npos; at = text.find(name)) {
      text.replace(at, std::string_view(name).size(), mark);
    }
  }
  return text;
}

std::string Kimi(const std::string& text) { return CallsAlone("kimi_k2", WithKimiMarks(text)); }

TEST(KimiCallsTest, NamesAreNumbered) {
  EXPECT_EQ(Kimi("{BEGIN}{CALL}functions.get_weather:0{ARGS}{\"city\": \"東京 😀\"}{DONE}{END}"),
            "get_weather {\"city\": \"東京 😀\"}\n");
  EXPECT_EQ(Kimi("{BEGIN}{CALL}functions.f:2{ARGS}{\"a\":[\"}\"]}{DONE}{CALL}functions.g:3{ARGS}{}"
                 "{DONE}{END}"),
            "f {\"a\":[\"}\"]}\ng {}\n");
  EXPECT_EQ(Kimi("{BEGIN} {CALL} functions.a.b-c:12 {ARGS} {\"a\": 1} {DONE}\n{END}"),
            "a.b-c {\"a\": 1}\n");
  EXPECT_EQ(Kimi("{BEGIN}{CALL}f:0{ARGS}{}{DONE}{CALL}g{ARGS}{}{DONE}{END}"), "f {}\ng {}\n");
  EXPECT_EQ(Kimi("{BEGIN}{CALL}functions.now:0{ARGS}{DONE}{END}"), "now {}\n");
}

TEST(KimiCallsTest, TheModelGivesIds) {
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "kimi_k2"});
  const std::string text = WithKimiMarks(
      "{BEGIN}{CALL}functions.f:7{ARGS}{}{DONE}{CALL}functions.now:8{ARGS}{DONE}{CALL}g{ARGS}{}"
      "{DONE}{CALL}functions.f:" +
      std::string(300, '1') + "{ARGS}{}{DONE}{END}");
  const ReadAnswer read = ReadPieces(format, {.tools = TestTools()}, {text});
  ASSERT_EQ(read.calls.size(), 4U);
  EXPECT_EQ(read.calls[0].id, "functions.f:7");
  EXPECT_EQ(read.calls[1].id, "functions.now:8");
  EXPECT_EQ(read.calls[2].id.substr(0, 5), "call_") << "without a number it is no id";
  EXPECT_EQ(read.calls[3].id.substr(0, 5), "call_") << "too long";
}

TEST(KimiCallsTest, TextMayStandBeside) {
  const ReadAnswer read = ReadEveryWay(
      "kimi_k2", WithKimiMarks("I look.{BEGIN}{CALL}functions.f:0{ARGS}{}{DONE}{END}\nDone."));
  EXPECT_EQ(read.text, "I look.Done.");
  EXPECT_EQ(read.Calls(), "f {}\n");
}

TEST(KimiCallsTest, OtherBlocksAreText) {
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "kimi_k2"});
  for (const char* text :
       {"{BEGIN}", "{BEGIN}{END}", "{BEGIN}{CALL}functions.no:0{ARGS}{}{DONE}{END}",
        "{BEGIN}{CALL}functions.f:0{DONE}{END}", "{BEGIN}{CALL}functions.f:0{ARGS}[1]{DONE}{END}",
        "{BEGIN}{CALL}functions.:0{ARGS}{}{DONE}{END}", "{BEGIN}{CALL}:{ARGS}{}",
        "{BEGIN}{CALL}functions.g:0{ARGS}f\n{}{DONE}{END}"}) {
    const std::string marked = WithKimiMarks(text);
    const ReadAnswer read = ReadPieces(format, {.tools = TestTools()}, {marked});
    EXPECT_EQ(read.Calls(), "") << text;
    EXPECT_EQ(read.text, marked);
  }
}

TEST(KimiCallsTest, CutCallsEndAsTheyStand) {
  EXPECT_EQ(ReadEveryWay("kimi_k2", WithKimiMarks("{BEGIN}{CALL}functions.f:0{ARGS}{\"a\": \"Par"))
                .Calls(),
            "f {\"a\": \"Par\n");
}

}  // namespace
}  // namespace ropeway::answer
