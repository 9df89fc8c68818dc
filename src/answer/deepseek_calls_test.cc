#include <gtest/gtest.h>

#include <string>

#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

// "{BEGIN}", "{CALL}" and so on stand for the marks.
std::string WithMarks(std::string text) {
  const std::pair<const char*, const char*> marks[] = {{"{BEGIN}", "<｜tool▁calls▁begin｜>"},
                                                       {"{END}", "<｜tool▁calls▁end｜>"},
                                                       {"{CALL}", "<｜tool▁call▁begin｜>"},
                                                       {"{DONE}", "<｜tool▁call▁end｜>"},
                                                       {"{SEP}", "<｜tool▁sep｜>"}};
  for (const auto& [name, mark] : marks) {
    for (size_t at = text.find(name); at != text.npos; at = text.find(name)) {
      text.replace(at, std::string_view(name).size(), mark);
    }
  }
  return text;
}

std::string DeepSeek(const std::string& text) { return CallsAlone("deepseek", WithMarks(text)); }

TEST(DeepSeekCallsTest, OlderModelsWriteFences) {
  EXPECT_EQ(DeepSeek("{BEGIN}{CALL}function{SEP}get_weather\n```json\n{\"city\": \"Paris\"}\n```"
                     "{DONE}{END}"),
            "get_weather {\"city\": \"Paris\"}\n");
  EXPECT_EQ(DeepSeek("{BEGIN}{CALL}function{SEP}f\n```json\n{\"a\": [1, {\"b\": \"}]\\\"{\"}]}\n"
                     "```{DONE}\n{CALL}function{SEP}g\n```json\n{}\n```\n{DONE}{END}\n"),
            "f {\"a\": [1, {\"b\": \"}]\\\"{\"}]}\ng {}\n");
  EXPECT_EQ(DeepSeek("{BEGIN}{CALL}function{SEP}f{DONE}{END}"), "f {}\n");
}

TEST(DeepSeekCallsTest, NewerModelsWriteArgumentsAlone) {
  EXPECT_EQ(DeepSeek("{BEGIN}{CALL}get_weather{SEP}{\"city\": \"東京 😀\"}{DONE}{END}"),
            "get_weather {\"city\": \"東京 😀\"}\n");
  EXPECT_EQ(DeepSeek("{BEGIN}{CALL}f{SEP}{\"a\":1}{DONE}{CALL}g{SEP}{}{DONE}{END}"),
            "f {\"a\":1}\ng {}\n");
  EXPECT_EQ(DeepSeek("{BEGIN}\n{CALL}f\n{SEP}\n{\n}\n{DONE}\n{END}"), "f {\n}\n");
  EXPECT_EQ(DeepSeek("{BEGIN}{CALL}f{SEP}```json\n{\"a\":1}\n```{DONE}{END}"), "f {\"a\":1}\n");
  EXPECT_EQ(DeepSeek("{BEGIN}{CALL}f{SEP}{DONE}{END}"), "f {}\n");
  EXPECT_EQ(DeepSeek("{BEGIN}{CALL}f{SEP}{\"a\":1}{END}"), "f {\"a\":1}\n") << "no end of the call";
}

TEST(DeepSeekCallsTest, PlainMarksInStringsAreText) {
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "deepseek"});
  const std::string text = WithMarks("{BEGIN}{CALL}f{SEP}{\"a\":\"\\\"{DONE}{END}\"}{DONE}{END}");
  EXPECT_EQ(ReadPieces(format, {.tools = TestTools()}, {text}).Calls(),
            WithMarks("f {\"a\":\"\\\"{DONE}{END}\"}\n"));
}

TEST(DeepSeekCallsTest, ControlTokensEndCalls) {
  AnswerFormat format = *DetectFormat("", true, {.tool_parser = "deepseek"});
  Resolve([](std::string_view) { return true; }, &format);
  std::string text = WithMarks("{BEGIN}{CALL}f{SEP}{\"a\":\"b{DONE}{CALL}g{SEP}{}{DONE}{END}");
  for (const std::string& mark : format.controls) {
    for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + 2)) {
      text.insert(at, 1, kControl);
    }
  }
  EXPECT_EQ(ReadPieces(format, {.tools = TestTools()}, {text}).Calls(), "f {\"a\":\"b\ng {}\n");
}

TEST(DeepSeekCallsTest, TextMayStandBeside) {
  const ReadAnswer read =
      ReadEveryWay("deepseek", WithMarks("Let me see.\n\n{BEGIN}{CALL}f{SEP}{}{DONE}{END}\nDone."));
  EXPECT_EQ(read.text, "Let me see.\n\nDone.");
  EXPECT_EQ(read.Calls(), "f {}\n");
}

TEST(DeepSeekCallsTest, WhatIsNoObjectStaysAsItIs) {
  EXPECT_EQ(
      ReadEveryWay("deepseek", WithMarks("{BEGIN}{CALL}f{SEP}{\"a\":[1}}{DONE}{END}")).Calls(),
      "f {\"a\":[1}}\n");
}

TEST(DeepSeekCallsTest, OtherBlocksAreText) {
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "deepseek"});
  for (const char* text :
       {"{BEGIN}", "{BEGIN}{END}", "{BEGIN}f{END}", "{BEGIN}{CALL}{END}", "{BEGIN}{CALL}f{DONE}",
        "{BEGIN}{CALL}{SEP}{}{DONE}{END}", "{BEGIN}{CALL}f{SEP}[1]{DONE}{END}", "{BEGIN}{SEP}",
        "{BEGIN}{CALL}f g{SEP}h i{DONE}{END}", "{BEGIN}{CALL}f{SEP}"}) {
    const std::string marked = WithMarks(text);
    const ReadAnswer read = ReadPieces(format, {.tools = TestTools()}, {marked});
    EXPECT_EQ(read.Calls(), "") << text;
    EXPECT_EQ(read.text, marked);
  }
}

TEST(DeepSeekCallsTest, CutCallsEndAsTheyStand) {
  const auto cut = [](const std::string& text) {
    const ReadAnswer read = ReadEveryWay("deepseek", WithMarks(text));
    EXPECT_EQ(read.text, "");
    return read.Calls();
  };
  EXPECT_EQ(cut("{BEGIN}{CALL}f{SEP}{\"a\": \"Par"), "f {\"a\": \"Par\n");
  EXPECT_EQ(cut("{BEGIN}{CALL}f{SEP}{\"a\": 1}"), "f {\"a\": 1}\n");
  EXPECT_EQ(cut("{BEGIN}{CALL}function{SEP}f\n```json\n{\"a\": 1}\n``"), "f {\"a\": 1}\n");
}

TEST(DeepSeekCallsTest, TheBlockEndsBeforeWhatIsNoCall) {
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "deepseek"});
  const ReadAnswer read =
      ReadPieces(format, {.tools = TestTools()}, {WithMarks("{BEGIN}{CALL}f{SEP}{}{DONE} There.")});
  EXPECT_EQ(read.Calls(), "f {}\n");
  EXPECT_EQ(read.text, "There.");
  EXPECT_EQ(
      ReadPieces(format, {.tools = TestTools()}, {WithMarks("{BEGIN}{CALL}f{SEP}{}{DONE}{CALL}g")})
          .text,
      WithMarks("{CALL}g"));
}

}  // namespace
}  // namespace ropeway::answer
