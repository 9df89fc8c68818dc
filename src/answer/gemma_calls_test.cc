#include <gtest/gtest.h>

#include <string>

#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

std::string Gemma(const std::string& text) { return CallsAlone("gemma", text); }

TEST(GemmaCallsTest, CallsAreWrittenAsJson) {
  EXPECT_EQ(Gemma("<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>,days:3}<tool_call|>"),
            "get_weather {\"city\":\"Paris\",\"days\":3}\n");
  EXPECT_EQ(Gemma("<|tool_call>call:now{}<tool_call|>"), "now {}\n");
  EXPECT_EQ(Gemma("<|tool_call>call:f{a:1}<tool_call|><|tool_call>call:g{b:2}<tool_call|>"),
            "f {\"a\":1}\ng {\"b\":2}\n");
  EXPECT_EQ(Gemma("<|tool_call>call:f{a:1}call:g{b:2}<tool_call|>"), "f {\"a\":1}\ng {\"b\":2}\n");
  EXPECT_EQ(Gemma("<|tool_call>\ncall:ns.f-g{ a : 1 , b:true }\n<tool_call|>\n"),
            "ns.f-g {\"a\":1,\"b\":true}\n");
}

TEST(GemmaCallsTest, ValuesNest) {
  EXPECT_EQ(Gemma("<|tool_call>call:f{list:[1,<|\"|>a<|\"|>,[],{}],obj:{x:{y:[true,false,null]},"
                  "z:-1.5e3},n:None}<tool_call|>"),
            "f {\"list\":[1,\"a\",[],{}],\"obj\":{\"x\":{\"y\":[true,false,null]},\"z\":-1.5e3},"
            "\"n\":null}\n");
  EXPECT_EQ(Gemma("<|tool_call>call:f{<|\"|>a b<|\"|>:<|\"|><|\"|>,\"c\":\"d\\n\"}<tool_call|>"),
            "f {\"a b\":\"\",\"c\":\"d\\n\"}\n");
}

TEST(GemmaCallsTest, StringsKeepWhatTheySay) {
  EXPECT_EQ(Gemma("<|tool_call>call:f{a:<|\"|>{x: \"1\", y: [2]} it's \\n <| <|\" |>\n"
                  "<|\"|>}<tool_call|>"),
            "f {\"a\":\"{x: \\\"1\\\", y: [2]} it's \\\\n <| <|\\\" |>\\n\"}\n");
  EXPECT_EQ(Gemma("<|tool_call>call:f{a:<|\"|>東京 😀<|\"|>}<tool_call|>"),
            "f {\"a\":\"東京 😀\"}\n");
  EXPECT_EQ(Gemma("<|tool_call>call:f{a:<|\"|><|<|\"|>}<tool_call|>"), "f {\"a\":\"<|\"}\n");
}

TEST(GemmaCallsTest, WordsThatAreNoLiteralsAreStrings) {
  EXPECT_EQ(Gemma("<|tool_call>call:f{a:New York ,b:10:30,c:<b>,d:<,e:<| x}<tool_call|>"),
            "f {\"a\":\"New York\",\"b\":\"10:30\",\"c\":\"<b>\",\"d\":\"<\",\"e\":\"<| x\"}\n");
}

TEST(GemmaCallsTest, TextMayStandBeside) {
  const ReadAnswer read =
      ReadEveryWay("gemma", "Let me see.\n<|tool_call>call:f{}<tool_call|>\nDone.");
  EXPECT_EQ(read.text, "Let me see.\nDone.");
  EXPECT_EQ(read.Calls(), "f {}\n");
}

TEST(GemmaCallsTest, QuotedMarksAreText) {
  // The quoted mark is no control token.
  AnswerFormat format = *DetectFormat("", true, {.tool_parser = "gemma"});
  Resolve([](std::string_view) { return true; }, &format);
  const ReadAnswer read = ReadPieces(
      format, {.tools = TestTools()},
      {"\xFF<|tool_call>call:f{a:\xFF<|\"|><|\"|> <tool_call|>\xFF<|\"|>}\xFF<tool_call|>"});
  EXPECT_EQ(read.Calls(), "f {\"a\":\"<|\\\"|> <tool_call|>\"}\n");
  EXPECT_EQ(read.text, "");
}

TEST(GemmaCallsTest, ControlTokensEndCalls) {
  AnswerFormat format = *DetectFormat("", true, {.tool_parser = "gemma"});
  Resolve([](std::string_view) { return true; }, &format);
  const ReadAnswer read = ReadPieces(format, {.tools = TestTools()},
                                     {"\xFF<|tool_call>call:f{a:\xFF<|\"|>Par\xFF<tool_call|>Oh."});
  EXPECT_EQ(read.Calls(), "f {\"a\":\"Par\n");
  EXPECT_EQ(read.text, "Oh.");
}

TEST(GemmaCallsTest, WhatIsNoObjectStaysAsItIs) {
  EXPECT_EQ(ReadEveryWay("gemma", "<|tool_call>call:f{{\"a\":1}}<tool_call|>").Calls(),
            "f {{\"a\":1}}\n");
  EXPECT_EQ(ReadEveryWay("gemma", "<|tool_call>call:f{a:[1},b:2}<tool_call|>").Calls(),
            "f {\"a\":[1},b:2}\n");
}

TEST(GemmaCallsTest, OtherBlocksAreText) {
  // Without control tokens, whose marks are not shown.
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "gemma"});
  for (const char* text : {"<|tool_call>", "<|tool_call>f{a:1}<tool_call|>", "<|tool_call>call:",
                           "<|tool_call>call:{a:1}<tool_call|>", "<|tool_call>call:f<tool_call|>",
                           "<|tool_call>call:f g{}<tool_call|>", "<|tool_call><tool_call|>"}) {
    const ReadAnswer read = ReadPieces(format, {.tools = TestTools()}, {text});
    EXPECT_EQ(read.Calls(), "");
    EXPECT_EQ(read.text, text);
    ReadEveryWay("none", text);
  }
}

TEST(GemmaCallsTest, CutCallsEndAsTheyStand) {
  const auto cut = [](const std::string& text) {
    const ReadAnswer read = ReadEveryWay("gemma", text);
    EXPECT_EQ(read.text, "");
    return read.Calls();
  };
  EXPECT_EQ(cut("<|tool_call>call:f{a:<|\"|>Par"), "f {\"a\":\"Par\n");
  EXPECT_EQ(cut("<|tool_call>call:f{a:12"), "f {\"a\":12\n");
  EXPECT_EQ(cut("<|tool_call>call:f{a:1}"), "f {\"a\":1}\n");
  EXPECT_EQ(cut("<|tool_call>call:f{a:1,b"), "f {\"a\":1,b\n");
}

}  // namespace
}  // namespace ropeway::answer
