#include <gtest/gtest.h>

#include <string>

#include "answer/literal_reader.h"
#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

std::string Pythonic(const std::string& text) { return CallsAlone("pythonic", text); }

// The JSON of one argument.
std::string Value(const std::string& literal) {
  const std::string calls = Pythonic("[f(a=" + literal + ")]");
  const std::string before = "f {\"a\":";
  EXPECT_TRUE(calls.starts_with(before) && calls.ends_with("}\n")) << calls;
  return calls.substr(before.size(), calls.size() - before.size() - 2);
}

TEST(PythonicCallsTest, CallsAreWrittenAsJson) {
  EXPECT_EQ(Pythonic("[get_weather(city='Paris', days=3)]"),
            "get_weather {\"city\":\"Paris\",\"days\":3}\n");
  EXPECT_EQ(Pythonic("[a.b-c( x = 1 , y=2, )]\n"), "a.b-c {\"x\":1,\"y\":2}\n");
  EXPECT_EQ(Pythonic("[f(a=1), g(b=2),\n h()]"), "f {\"a\":1}\ng {\"b\":2}\nh {}\n");
  EXPECT_EQ(Pythonic("[f(), g()]"), "f {}\ng {}\n");
  EXPECT_EQ(Pythonic("[f( ) , ]"), "f {}\n");
}

TEST(PythonicCallsTest, ValuesAreLiterals) {
  EXPECT_EQ(Value("True"), "true");
  EXPECT_EQ(Value("False"), "false");
  EXPECT_EQ(Value("None"), "null");
  EXPECT_EQ(Value("null"), "null");
  EXPECT_EQ(Value("-1.5e+3"), "-1.5e+3");
  EXPECT_EQ(Value("+1"), "1");
  EXPECT_EQ(Value("1_000_000"), "1000000");
  EXPECT_EQ(Value(".5"), "0.5");
  EXPECT_EQ(Value("-5."), "-5.0");
  EXPECT_EQ(Value("5.e3"), "5.0e3");
  EXPECT_EQ(Value("0xFf"), "255");
  EXPECT_EQ(Value("-0b101"), "-5");
  EXPECT_EQ(Value("123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(Value("[1, 'two', [True, []], {}]"), "[1,\"two\",[true,[]],{}]");
  EXPECT_EQ(Value("{'a': {'b': [1, 2,],}, \"c\" : None}"), "{\"a\":{\"b\":[1,2]},\"c\":null}");
  EXPECT_EQ(Value("{1: 'one', True: 2}"), "{\"1\":\"one\",\"True\":2}");
  EXPECT_EQ(Value("[{'a': ''}, '']"), "[{\"a\":\"\"},\"\"]");
}

TEST(PythonicCallsTest, WordsThatAreNoLiteralsAreStrings) {
  EXPECT_EQ(Value("celsius"), "\"celsius\"");
  EXPECT_EQ(Value("2024-01-15"), "\"2024-01-15\"");
  EXPECT_EQ(Value("02134"), "\"02134\"");
  EXPECT_EQ(Value("."), "\".\"");
  EXPECT_EQ(Value("0x"), "\"0x\"");
  EXPECT_EQ(Value("1__0"), "\"1__0\"");
  EXPECT_EQ(Value("0xFFFFFFFFFFFFFFFFFF"), "\"0xFFFFFFFFFFFFFFFFFF\"");
}

TEST(PythonicCallsTest, StringsKeepWhatTheySay) {
  EXPECT_EQ(Value("''"), "\"\"");
  EXPECT_EQ(Value("\"it's (a) [b], c=1\""), "\"it's (a) [b], c=1\"");
  EXPECT_EQ(Value("'say \"hi\"'"), "\"say \\\"hi\\\"\"");
  EXPECT_EQ(Value("'it\\'s'"), "\"it's\"");
  EXPECT_EQ(Value("'a\\nb\\\\c\\td\\d\\q'"), "\"a\\nb\\\\c\\td\\\\d\\\\q\"");
  EXPECT_EQ(Value("'a\nb'"), "\"a\\nb\"") << "a line feed as it is";
  EXPECT_EQ(Value("'a\\\nb'"), "\"ab\"") << "a line that goes on";
  EXPECT_EQ(Value("'''it's ''fine'' '''"), "\"it's ''fine'' \"");
  EXPECT_EQ(Value("\"\"\"\"a\" b\"\"\""), "\"\\\"a\\\" b\"");
  EXPECT_EQ(Value("''''''"), "\"\"");
  EXPECT_EQ(Value("'Zürich 東京 😀'"), "\"Zürich 東京 😀\"");
  EXPECT_EQ(Value("'\\a\\x07\\0\\101\\18'"), "\"\\u0007\\u0007\\u0000A\\u00018\"");
  EXPECT_EQ(Value("'\\x41\\xe9\\u6771\\U0001F600'"), "\"Aé東😀\"");
  EXPECT_EQ(Value("'\\x22\\u005c'"), "\"\\\"\\\\\"");
  EXPECT_EQ(Value("'\\xg \\u12'"), "\"\\\\xg \\\\u12\"") << "no escapes";
}

TEST(PythonicCallsTest, SurrogatesAreCharactersOrReplaced) {
  EXPECT_EQ(Value("'\\ud83d\\ude00'"), "\"😀\"");
  EXPECT_EQ(Value("'\\ud83dx'"), "\"\uFFFDx\"");
  EXPECT_EQ(Value("'\\ud83d'"), "\"\uFFFD\"");
  EXPECT_EQ(Value("'\\ude00\\ud83d\\ud83d\\ude00'"), "\"\uFFFD\uFFFD😀\"");
  EXPECT_EQ(Value("'\\U00110000'"), "\"\uFFFD\"");
}

TEST(PythonicCallsTest, BlocksMayHaveMarks) {
  EXPECT_EQ(CallsAlone("lfm2", "<|tool_call_start|>[f(a='x')]<|tool_call_end|>"),
            "f {\"a\":\"x\"}\n");
  EXPECT_EQ(CallsAlone("lfm2", "<|tool_call_start|>[f(), g(b=1)]\n<|tool_call_end|>\n"),
            "f {}\ng {\"b\":1}\n");
  EXPECT_EQ(CallsAlone("lfm2",
                       "<|tool_call_start|>[f(a=1)]<|tool_call_end|>"
                       "<|tool_call_start|>[f(a=2)]<|tool_call_end|>"),
            "f {\"a\":1}\nf {\"a\":2}\n");
  const ReadAnswer read =
      ReadEveryWay("lfm2", "Let me see.<|tool_call_start|>[f()]<|tool_call_end|>Done.");
  EXPECT_EQ(read.text, "Let me see.Done.");
  EXPECT_EQ(read.Calls(), "f {}\n");
}

TEST(PythonicCallsTest, OtherTextIsText) {
  for (const char* text : {"[1, 2]",
                           "[see below]",
                           "[",
                           "[]",
                           "[f",
                           "[f(",
                           "[f()",
                           "[f(1)]",
                           "[f(x)]",
                           "[f(a==1)]",
                           "[f(a",
                           "[f(a=",
                           "[f(a=(1))]",
                           "[f](http://a)",
                           "[1f(a=1)]",
                           "[f (a=1)]",
                           "[f() and so on]",
                           "[é(a=1)]",
                           "Hi [f(a=1)]",
                           "[[f(a=1)]]",
                           "[f(1a=2)]"}) {
    ExpectNoCall("pythonic", text);
  }
}

TEST(PythonicCallsTest, CutCallsEndAsTheyStand) {
  const auto cut = [](const std::string& text) {
    const ReadAnswer read = ReadEveryWay("pythonic", text);
    EXPECT_EQ(read.text, "");
    return read.Calls();
  };
  EXPECT_EQ(cut("[f(a='Par"), "f {\"a\":\"Par\n");
  EXPECT_EQ(cut("[f(a=12"), "f {\"a\":12\n");
  EXPECT_EQ(cut("[f(a=1, b"), "f {\"a\":1\n");
  EXPECT_EQ(cut("[f(a=1)"), "f {\"a\":1}\n");
}

TEST(PythonicCallsTest, TheBlockEndsBeforeWhatIsNoCall) {
  const auto both = [](const std::string& text) {
    const ReadAnswer read = ReadEveryWay("pythonic", text);
    return read.Calls() + read.text;
  };
  EXPECT_EQ(both("[f(a=1)] is the call."), "f {\"a\":1}\nis the call.");
  EXPECT_EQ(both("[f(a=1), g"), "f {\"a\":1}\n, g");
  EXPECT_EQ(both("[f(a=1), g(b="), "f {\"a\":1}\n, g(b=");
  EXPECT_EQ(both("[f(a=1), see below]"), "f {\"a\":1}\n, see below]");
  EXPECT_EQ(both("[f(a=1; b)]"), "f {\"a\":1\n; b)]");
  EXPECT_EQ(both("[f(a=g(1))]"), "f {\"a\":g\n(1))]");
}

TEST(PythonicCallsTest, LittleIsHeldBack) {
  ExpectNoCall("pythonic", "[" + std::string(100, 'f'));
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "pythonic"});
  const auto parser = MakeAnswerParser(format, {.tools = TestTools()});
  Delta delta;
  parser->Add("[" + std::string(65'534, 'f'), &delta);
  EXPECT_EQ(delta.text, "");
  parser->Add("ffff", &delta);
  EXPECT_EQ(delta.text.size(), 65'539U);
}

TEST(PythonicCallsTest, ArgumentsComeWhileTheyAreWritten) {
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = "pythonic"});
  const auto parser = MakeAnswerParser(format, {.tools = TestTools()});
  const auto add = [&](const char* text) {
    Delta delta;
    parser->Add(text, &delta);
    std::string all;
    for (const ToolCallDelta& call : delta.tool_calls) all += call.name + call.arguments;
    return all;
  };
  EXPECT_EQ(add("[write(text="), "");
  EXPECT_EQ(add("'Once upon"), "write{\"text\":\"Once upon");
  EXPECT_EQ(add(" a time"), " a time");
  EXPECT_EQ(add("', n=1"), "\",\"n\":");
  EXPECT_EQ(add(")"), "1}");
}

}  // namespace
}  // namespace ropeway::answer
