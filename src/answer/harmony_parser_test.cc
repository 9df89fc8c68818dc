#include "answer/harmony_parser.h"

#include <gtest/gtest.h>

#include <string>

#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

std::string Harmony(const std::string& text,
                    const AnswerOptions& options = {.tools = TestTools()}) {
  const ReadAnswer read = ReadEveryWay("harmony", text, options);
  std::string all = "[" + read.reasoning + "][" + read.text + "]";
  for (const ToolCall& call : read.calls) all += " " + call.name + " " + call.arguments;
  return all;
}

TEST(HarmonyParserTest, ChannelsAreThoughtsAndText) {
  EXPECT_EQ(Harmony("<|channel|>analysis<|message|>Two and two.<|end|><|start|>assistant<|channel|>"
                    "final<|message|>Four.\n<|return|>"),
            "[Two and two.][Four.\n]");
  EXPECT_EQ(Harmony("<|channel|>final<|message|>Zürich 東京 😀"), "[][Zürich 東京 😀]");
  EXPECT_EQ(
      Harmony("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary"
              "<|message|>I look it up. <|end|><|start|>assistant<|channel|>analysis<|message|>"
              "b<|end|><|start|>assistant<|channel|>final<|message|>c<|return|>"),
      "[ab][I look it up. c]");
}

TEST(HarmonyParserTest, RecipientsAreCalled) {
  const std::string call = " get_weather {\"city\": \"Paris\"}";
  EXPECT_EQ(
      Harmony("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"
              " to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\"}"
              "<|call|>"),
      "[Hm.][]" + call);
  EXPECT_EQ(Harmony(" to=functions.get_weather<|channel|>commentary json<|message|>"
                    "{\"city\": \"Paris\"}<|call|>"),
            "[][]" + call);
  EXPECT_EQ(Harmony("<|channel|>analysis to=functions.get_weather code<|message|>"
                    "{\"city\": \"Paris\"}"),
            "[][]" + call);
  EXPECT_EQ(Harmony("<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>"
                    "json<|message|> {\"city\": \"Paris\"}<|call|><|start|>assistant<|channel|>"
                    "commentary to=functions.now<|message|><|call|>"),
            "[][]" + call + " now {}");
}

TEST(HarmonyParserTest, OtherRecipientsAreThoughts) {
  EXPECT_EQ(Harmony("<|channel|>commentary to=browser.search code<|message|>{\"q\": 1}<|call|>"),
            "[{\"q\": 1}][]");
  EXPECT_EQ(Harmony("<|channel|>analysis to=python<|message|>1 + 1<|call|>"), "[1 + 1][]");
  EXPECT_EQ(Harmony("<|channel|>commentary to=functions.<|message|>{}<|call|>"), "[{}][]");
}

TEST(HarmonyParserTest, WithoutToolsCallsAreText) {
  EXPECT_EQ(Harmony("<|channel|>commentary to=functions.f<|message|>{}<|call|>", {}), "[][{}]");
}

TEST(HarmonyParserTest, OnlyKnownToolsAreCalled) {
  EXPECT_EQ(Harmony("<|channel|>commentary to=functions.f<|message|>{}<|call|>", {.tools = {"g"}}),
            "[][{}]");
}

// Channels are read, whichever calls are.
TEST(HarmonyParserTest, CallsMayBeOfAnotherForm) {
  const std::string thought =
      "|<|channel|>analysis|<|message|>Hm.|<|end|>|<|start|>assistant|<|channel|>";
  const auto read = [&](const char* form, const std::string& text) {
    const auto marked = [](std::string all, bool controls) {
      for (size_t at = all.find("|<"); at != all.npos; at = all.find("|<", at)) {
        all.replace(at, 1, controls ? 1 : 0, kControl);
        ++at;
      }
      return all;
    };
    std::string plain;
    for (const bool controls : {false, true}) {
      AnswerFormat format = *DetectFormat("<|channel|> <|message|>", true, {.tool_parser = form});
      Resolve([&](std::string_view) { return controls; }, &format);
      const std::string all = marked(text, controls);
      const ReadAnswer whole = ReadPieces(format, {.tools = TestTools()}, {all});
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(ReadPieces(format, {.tools = TestTools()}, {all.substr(0, i), all.substr(i)}),
                  whole);
      }
      const std::string shown = "[" + whole.reasoning + "][" + whole.text + "] " + whole.Calls();
      EXPECT_TRUE(!controls || shown == plain) << shown;
      plain = shown;
    }
    return plain;
  };
  EXPECT_EQ(read("none", thought + "final|<|message|>Four. |<|return|>"), "[Hm.][Four. ] ");
  EXPECT_EQ(read("none", thought + "commentary to=functions.f|<|message|>{}|<|call|>"),
            "[Hm.][{}] ");
  EXPECT_EQ(read("hermes", thought + "final|<|message|>Now |<tool_call>{\"name\": \"f\"}"
                                     "|</tool_call>|<|return|>"),
            "[Hm.][Now] f {}\n");
  EXPECT_EQ(read("hermes", thought + "commentary to=functions.f|<|message|>{}|<|call|>"),
            "[Hm.][{}] ");
}

TEST(HarmonyParserTest, MalformedHeadersLoseNoText) {
  EXPECT_EQ(Harmony("Hi there"), "[][Hi there]");
  EXPECT_EQ(Harmony("{\"a\": 1}<|return|>"), "[][{\"a\": 1}]");
  EXPECT_EQ(Harmony("token"), "[][token]");
  EXPECT_EQ(Harmony(" t"), "[][ t]");
  EXPECT_EQ(Harmony("<|message|>Hi<|end|>"), "[][Hi]");
  EXPECT_EQ(Harmony("<|start|>assistant<|message|>Hi<|end|>you"), "[][Hiyou]");
  EXPECT_EQ(Harmony("<|channel|><|message|>Hi"), "[][Hi]");
  EXPECT_EQ(Harmony("<|channel|>other<|message|>Hi"), "[][Hi]");
  EXPECT_EQ(Harmony("<|channel|>analysis<|message|>a<|channel|>final<|message|>b"), "[a][b]");
  EXPECT_EQ(
      Harmony("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b"),
      "[a][b]");
}

TEST(HarmonyParserTest, CutAnswersEndAsTheyStand) {
  EXPECT_EQ(Harmony("<|channel|>analysis<|message|>Tw"), "[Tw][]");
  EXPECT_EQ(Harmony("<|channel|>anal"), "[][]");
  EXPECT_EQ(Harmony("<|channel|>final<|message|>a<|end|><|start|>assist"), "[][a]");
  EXPECT_EQ(Harmony("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": \"P"),
            "[][] f {\"a\": \"P");
  EXPECT_EQ(Harmony("<|channel|>commentary to=functions.f<|message|>"), "[][] f ");
  EXPECT_EQ(Harmony("<|channel|>commentary to=functions.f<|message|><|call|>"), "[][] f {}");
  EXPECT_EQ(Harmony(" to=functions.f", {.tools = TestTools(), .only_calls = true}), "[][]");
  EXPECT_EQ(Harmony(" to=functions.f"), "[][ to=functions.f]");
}

TEST(HarmonyParserTest, PromptsMayEndWithinAThought) {
  EXPECT_EQ(Harmony("Two.<|end|><|start|>assistant<|channel|>final<|message|>Four.",
                    {.in_thought = true}),
            "[Two.][Four.]");
}

TEST(HarmonyParserTest, QuotedMarksAreText) {
  AnswerFormat format = *DetectFormat("", true, {.tool_parser = "harmony"});
  Resolve([](std::string_view) { return true; }, &format);
  const ReadAnswer read = ReadPieces(format, {.tools = TestTools()},
                                     {"\xFF<|channel|>final\xFF<|message|>a <|end|> b <|"});
  EXPECT_EQ(read.text, "a <|end|> b <|");
}

TEST(HarmonyParserTest, SaysWhetherItIsAThought) {
  AnswerFormat format = *DetectFormat("", true, {.tool_parser = "harmony"});
  Resolve([](std::string_view) { return false; }, &format);
  const auto parser = MakeHarmonyParser(format, {});
  Delta delta;
  EXPECT_FALSE(parser->thinking());
  parser->Add("<|channel|>analysis<|message|>", &delta);
  EXPECT_TRUE(parser->thinking());
  parser->Add("a<|end|>", &delta);
  EXPECT_FALSE(parser->thinking());
}

TEST(HarmonyParserTest, LittleIsHeldBack) {
  AnswerFormat format = *DetectFormat("", true, {.tool_parser = "harmony"});
  Resolve([](std::string_view) { return false; }, &format);
  const auto parser = MakeHarmonyParser(format, {});
  Delta delta;
  parser->Add("<|start|>" + std::string(65'536, 'x'), &delta);
  EXPECT_EQ(delta.text.size(), 0U);
  parser->Add("y", &delta);
  EXPECT_EQ(delta.text.size(), 65'537U);
}

}  // namespace
}  // namespace ropeway::answer
