#include "answer/tagged_parser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

// The format of this name, with every mark that may be a control token being one if `controls`.
AnswerFormat FormatOf(std::string_view calls, bool controls = false) {
  StatusOr<AnswerFormat> format = DetectFormat("</think>", true, {.tool_parser = calls});
  EXPECT_TRUE(format.ok()) << format.status().message();
  Resolve([&](std::string_view) { return controls; }, &*format);
  return *std::move(format);
}

// Marks the control tokens of `text` as the engine does.
std::string Marked(const AnswerFormat& format, std::string text) {
  for (const std::string& control : format.controls) {
    for (size_t at = text.find(control); at != std::string::npos; at = text.find(control, at)) {
      text.insert(at, 1, kControl);
      at += control.size() + 1;
    }
  }
  return text;
}

std::string Shown(const AnswerParser& parser, const Delta& delta) {
  std::string shown = "[" + delta.reasoning + "][" + delta.text + "]";
  std::vector<ToolCall> calls;
  for (const ToolCallDelta& each : delta.tool_calls) {
    if (each.index == static_cast<int32_t>(calls.size())) calls.emplace_back();
    ToolCall& call = calls.at(static_cast<size_t>(each.index));
    call.id += each.id;
    call.name += each.name;
    call.arguments += each.arguments;
  }
  for (const ToolCall& call : calls) shown += " " + call.name + call.arguments;
  EXPECT_EQ(parser.calls(), static_cast<int>(calls.size()));
  return shown;
}

// What is read of `text`, and that cuts make no difference.
std::string Read(const AnswerFormat& format, const AnswerOptions& options, std::string text) {
  text = Marked(format, std::move(text));
  const auto read = [&](const std::vector<std::string>& pieces) {
    const std::unique_ptr<AnswerParser> parser = MakeTaggedParser(format, options);
    Delta all;
    for (const std::string& piece : pieces) parser->Add(piece, &all);
    parser->Finish(&all);
    return Shown(*parser, all);
  };
  const std::string whole = read({text});
  std::vector<std::string> bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(read({text.substr(0, i), text.substr(i)}), whole) << "cut at " << i;
    bytes.push_back(text.substr(i, 1));
  }
  EXPECT_EQ(read(bytes), whole);
  return whole;
}

std::string Think(const std::string& text, bool in_thought = false) {
  const AnswerOptions options{.in_thought = in_thought};
  const std::string plain = Read(FormatOf("none"), options, text);
  EXPECT_EQ(Read(FormatOf("none", true), options, text), plain);
  return plain;
}

std::string Call(std::string_view form, const std::string& text) {
  const std::string plain = Read(FormatOf(form), {.tools = TestTools()}, text);
  EXPECT_EQ(Read(FormatOf(form, true), {.tools = TestTools()}, text), plain);
  return plain;
}

TEST(TaggedParserTest, TextWithoutMarksIsTheText) {
  EXPECT_EQ(Think(" Hi\n there \n"), "[][ Hi\n there \n]");
  EXPECT_EQ(Think(""), "[][]");
  EXPECT_EQ(Think(" \n"), "[][ \n]");
  EXPECT_EQ(Think("<thin"), "[][<thin]");
  EXPECT_EQ(Read(FormatOf("none"), {}, "a <think>b</think>"), "[][a <think>b</think>]")
      << "a thought stands at the beginning";
  EXPECT_EQ(Call("hermes", " Hi\n there \n"), "[][ Hi\n there \n]");
  EXPECT_EQ(Call("llama3_json", "Hi {}"), "[][Hi {}]");
}

// As a grammar of calls or a form has them.
TEST(TaggedParserTest, CallsAloneBeginTheAnswer) {
  const auto read = [](const char* form, const std::string& text) {
    return ReadEveryWay(form, text, {.tools = TestTools(), .calls_alone = true});
  };
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)";
  EXPECT_EQ(read("hermes", call + "\n" + call).Calls(), "f {\"a\": 1}\nf {\"a\": 1}\n");
  EXPECT_EQ(read("hermes", call + "\n" + call).text, "");
  const std::string bare = R"({"name": "f", "parameters": {"a": 1}})";
  EXPECT_EQ(read("llama3_json", bare + "; " + bare).Calls(), "f {\"a\": 1}\nf {\"a\": 1}\n");
  EXPECT_EQ(read("llama3_json", "<|python_tag|>" + bare).Calls(), "f {\"a\": 1}\n");
  EXPECT_EQ(read("pythonic", "[f(a=1), g()]").Calls(), "f {\"a\":1}\ng {}\n");
  for (const std::string& text : std::vector<std::string>{
           "a" + call, " " + call, "\"" + call + "\"", "<tool_call", " <tool_call> \n"}) {
    EXPECT_EQ(Read(FormatOf("hermes"), {.tools = TestTools(), .calls_alone = true}, text),
              "[][" + text + "]");
  }
  for (const char* text :
       {R"({"name": "f", "arguments": {"a": 1}})", R"({"name": "x", "parameters": {}})",
        R"( {"name": "f", "parameters": {}})", R"({"name" : "f", "parameters": {}})",
        R"([{"name": "f", "parameters": {}}])", R"({"name": "f", "parameters":)", "{\"n", "[f"}) {
    EXPECT_EQ(read("llama3_json", text).text, text);
    EXPECT_EQ(read("pythonic", text).text, text);
  }
  // What begins otherwise is not held back.
  const AnswerFormat format = FormatOf("llama3_json");
  const auto parser = MakeAnswerParser(format, {.tools = TestTools(), .calls_alone = true});
  Delta delta;
  parser->Add(R"({"name": "f", "age")", &delta);
  EXPECT_EQ(delta.text, R"({"name": "f", "age")");
  // A thought comes first, and white space behind it.
  const std::string shown = Read(FormatOf("hermes"), {.tools = TestTools(), .calls_alone = true},
                                 "<think>x</think>\n\n" + call);
  EXPECT_TRUE(shown.starts_with("[x][] ") && shown.ends_with("f{\"a\": 1}")) << shown;
}

TEST(TaggedParserTest, ThoughtsStandApart) {
  EXPECT_EQ(Think("<think>\nTwo.\nAnd two.\n</think>\n\nFour.\n"), "[Two.\nAnd two.][Four.\n]");
  EXPECT_EQ(Think(" \n<think>x</think>"), "[x][]");
  EXPECT_EQ(Think("<think></think>y"), "[][y]");
  EXPECT_EQ(Think("<think>x"), "[x][]");
  EXPECT_EQ(Think("<think>x </thi"), "[x </thi][]");
  EXPECT_EQ(Read(FormatOf("none"), {}, "<think>a</think> <think>b</think>"),
            "[a][<think>b</think>]");
}

TEST(TaggedParserTest, APromptMayHaveBegunTheThought) {
  EXPECT_EQ(Think("Two.\n</think>\n\nFour.", true), "[Two.][Four.]");
  EXPECT_EQ(Think("\nTwo", true), "[Two][]");
}

// A model that quotes a control token with ordinary ones does not make one.
TEST(TaggedParserTest, AQuotedControlTokenIsText) {
  const AnswerFormat format = FormatOf("hermes", true);
  const auto parser = MakeTaggedParser(format, {.tools = TestTools()});
  Delta all;
  parser->Add("<think>a</think><tool_call>{\"name\":\"f\"}</tool_call>", &all);
  parser->Finish(&all);
  EXPECT_EQ(all.text, "<think>a</think><tool_call>{\"name\":\"f\"}</tool_call>");
  EXPECT_EQ(parser->calls(), 0);
}

TEST(TaggedParserTest, ControlTokensOutOfPlaceAreNotShown) {
  const AnswerFormat format = FormatOf("hermes", true);
  EXPECT_EQ(Read(format, {}, "a</think>b<tool_call>c"), "[][abc]");
  EXPECT_EQ(Read(format, {}, "<think>a<tool_call>b</think>c"), "[ab][c]");
}

TEST(TaggedParserTest, WhetherItThinksIsKnownAtEachPlace) {
  const AnswerFormat format = FormatOf("none");
  const auto parser = MakeTaggedParser(format, {});
  Delta delta;
  EXPECT_FALSE(parser->thinking());
  parser->Add("<think>", &delta);
  EXPECT_TRUE(parser->thinking());
  parser->Add("x</think", &delta);
  EXPECT_TRUE(parser->thinking());
  parser->Add(">", &delta);
  EXPECT_FALSE(parser->thinking());
  EXPECT_TRUE(MakeTaggedParser(format, {.in_thought = true})->thinking());
}

TEST(TaggedParserTest, HermesCalls) {
  EXPECT_EQ(Call("hermes",
                 "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": [1, {\"b\": \"}\"}]}}\n"
                 "</tool_call>"),
            "[][] add{\"a\": [1, {\"b\": \"}\"}]}");
  EXPECT_EQ(Call("hermes",
                 "<think>\nh\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": \"f\", "
                 "\"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"arguments\": {\"x\": 1}, "
                 "\"name\": \"g\"}\n</tool_call>\n"),
            "[h][One moment.] f{} g{\"x\": 1}");
  EXPECT_EQ(Call("hermes", "<tool_call>{\"name\": \"f\"}</tool_call> Done."), "[][Done.] f{}");
  EXPECT_EQ(Call("hermes", "Now: <tool_call>{\"name\": \"f\"}</tool_call>\n ok"),
            "[][Now: ok] f{}");
  // Arguments as a string that holds JSON.
  EXPECT_EQ(
      Call("hermes", R"(<tool_call>{"name":"f","arguments":"{\"a\":\"\\u00e9\"}"}</tool_call>)"),
      R"([][] f{"a":"\u00e9"})");
}

TEST(TaggedParserTest, WhatIsNoCallIsText) {
  const AnswerFormat format = FormatOf("hermes");
  for (const char* text :
       {"<tool_call>", "<tool_call>\n{\"name\": \"f", "<tool_call>[1]</tool_call>",
        "<tool_call>\n{\"arguments\": {}}\n</tool_call>", "<tool_call>{\"name\": 1}</tool_call>",
        "a <tool_call >{}", "<tool_call>{\"x\": \"y\"} b"}) {
    EXPECT_EQ(Read(format, {.tools = TestTools()}, text), std::string("[][") + text + "]");
  }
}

// What the model wrote behind a call, or where one seemed to begin, is shown, but not the marks of
// calls that were read.
TEST(TaggedParserTest, NothingIsLostBehindACall) {
  const std::string f = "{\"name\": \"f\"}";
  const std::string call = "<tool_call>" + f;
  EXPECT_EQ(Call("hermes", call + " then all of this text"), "[][then all of this text] f{}");
  EXPECT_EQ(Call("hermes", call + " then < text</tool_call> b"), "[][then < text b] f{}");
  EXPECT_EQ(Call("hermes", call + "}\n</tool_call>"), "[][}] f{}");
  EXPECT_EQ(Call("hermes", call + "\n{\"name\": \"g\"}</tool_call>"), "[][] f{} g{}");
  EXPECT_EQ(Call("hermes", call + "\n{\"x\": 1}</tool_call> b"), "[][{\"x\": 1} b] f{}");
  EXPECT_EQ(Call("hermes", call + "\n{\"x\": 1"), "[][{\"x\": 1] f{}");
  EXPECT_EQ(Call("hermes", call + call + "</tool_call>"), "[][] f{} f{}");
  EXPECT_EQ(Read(FormatOf("hermes"), {.tools = TestTools()}, call + "\n</tool_"), "[][] f{}")
      << "a part of the mark";
  EXPECT_EQ(Call("phi4", "<|tool_call|>[" + f + "] a<|/tool_call|>b"), "[][ab] f{}");
  EXPECT_EQ(Call("phi4", "<|tool_call|>[" + f + ", {\"nam"), "[][, {\"nam] f{}");
  EXPECT_EQ(Read(FormatOf("hermes"), {.tools = TestTools()}, call + "</tool_call> a</tool_call>"),
            "[][a</tool_call>] f{}")
      << "a mark of no block is text";
}

TEST(TaggedParserTest, ABlockThatIsNoneHidesNoCall) {
  const std::string call = "<tool_call>{\"name\": \"f\"}</tool_call>";
  const AnswerFormat format = FormatOf("hermes");
  const auto read = [&](const std::string& text) {
    return Read(format, {.tools = TestTools()}, text);
  };
  EXPECT_EQ(read("Use <tool_call>" + call + " ok"), "[][Use <tool_call>ok] f{}");
  EXPECT_EQ(read("<tool_call><tool_call>\n" + call), "[][<tool_call><tool_call>] f{}");
  EXPECT_EQ(read("<tool_call>{\"a\": \"" + call), "[][<tool_call>{\"a\": \"] f{}");
  EXPECT_EQ(read("<tool_call>{\"a\": [\"<tool_call>{\"name\": \"f\", \"arguments\": {\"b"),
            "[][<tool_call>{\"a\": [\"] f{\"b");
  EXPECT_EQ(Call("llama3_json", "{\"a\": 1} <|python_tag|>{\"name\": \"f\"}"),
            "[][{\"a\": 1}] f{}");
}

TEST(TaggedParserTest, MarksWithoutCallsTakeLinearTime) {
  for (const auto& [form, unit] :
       {std::pair("hermes", "<tool_call>"), std::pair("hermes", "<tool_call>{\"a\":[\""),
        std::pair("hermes", "<tool_call>{\""), std::pair("functools", "functools[{\"\":")}) {
    const AnswerFormat format = FormatOf(form);
    std::string text;
    for (int i = 0; i < 10'000; ++i) text += unit;
    const auto parser = MakeTaggedParser(format, {.tools = TestTools()});
    Delta delta;
    const auto begin = std::chrono::steady_clock::now();
    parser->Add(text, &delta);
    parser->Finish(&delta);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << unit;
    EXPECT_EQ(delta.text, text);
  }
}

TEST(TaggedParserTest, ACallThatIsCutEndsAsItStands) {
  EXPECT_EQ(Call("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b"),
            "[][] f{\"a\": \"b");
  EXPECT_EQ(Call("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ]}</tool_call>c"),
            "[][]}c] f{\"a\": ");
  EXPECT_EQ(Call("hermes", "<tool_call>{\"name\": \"f\", \"arguments"), "[][] f");
  EXPECT_EQ(Call("hermes", "<tool_call>{\"name\": \"f\"}"), "[][] f{}") << "it has none";
}

// A program would take invented arguments for the model's, and markup for what it says.
TEST(TaggedParserTest, WhatIsCutGetsNoArgumentsAndOfCallsAloneNoText) {
  const std::string json = R"({"a": 1})";
  const std::string tagged = "<tool_call>\n{\"name\": \"f\", \"arguments\": " + json +
                             "}\n</tool_call>\n<tool_call>\n{\"arguments\": " + json +
                             ", \"name\": \"g\"}\n</tool_call>";
  const std::string object = R"({"name": "f", "parameters": {"a": 1}})";
  for (const auto& [form, text] : std::vector<std::pair<const char*, std::string>>{
           {"hermes", tagged},
           {"generic", tagged},
           {"llama3_json", object + "; " + object},
           {"mistral", "[TOOL_CALLS]f[ARGS]" + json + "[TOOL_CALLS]g[ARGS]" + json},
           {"mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": " + json + "}]"},
           {"pythonic", "[f(a=1), g(a=1)]"},
           {"gemma", "<|tool_call>call:f{a:1}<tool_call|>"},
           {"kimi_k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
            "<|tool_call_argument_begin|>" +
                json + "<|tool_call_end|><|tool_calls_section_end|>"},
           {"functools", "functools[" + object + ", " + object + "]"}}) {
    const ReadAnswer whole = ReadEveryWay(form, text);
    ASSERT_FALSE(whole.calls.empty()) << form;
    EXPECT_TRUE(whole.proper()) << form;
    // Tokens are not cut: here all marks are text.
    StatusOr<AnswerFormat> format = DetectFormat("", true, {.tool_parser = form});
    ASSERT_TRUE(format.ok());
    Resolve([](std::string_view) { return false; }, &*format);
    const AnswerOptions options{.tools = TestTools(), .only_calls = true};
    for (size_t size = 0; size < text.size(); ++size) {
      const std::string cut = text.substr(0, size);
      const ReadAnswer read = ReadPieces(*format, options, {cut});
      EXPECT_EQ(read.text, "") << form << ": " << cut;
      // The detokenizer's sign for a character that is cut.
      EXPECT_EQ(ReadPieces(*format, options, {cut + "\xEF\xBF\xBD"}).text, "")
          << form << ": " << cut;
      for (const ToolCall& call : read.calls)
        EXPECT_NE(call.arguments, "{}") << form << ": " << cut;
    }
  }
}

TEST(TaggedParserTest, LlamaCalls) {
  EXPECT_EQ(Call("llama3_json", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}"),
            "[][] f{\"a\": 1}");
  EXPECT_EQ(Call("llama3_json",
                 "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; "
                 "{\"name\": \"g\", \"parameters\": {}}"),
            "[][] f{} g{}");
  EXPECT_EQ(Call("llama3_json", "{\"answer\": 4}"), "[][{\"answer\": 4}]");
  EXPECT_EQ(Call("llama3_json", "It is {\"name\": \"f\"}"), "[][It is {\"name\": \"f\"}]");
}

TEST(TaggedParserTest, ListsOfCalls) {
  EXPECT_EQ(Call("phi4",
                 "Now: <|tool_call|>[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g\","
                 "\"arguments\":{\"a\":\"<|/tool_call|\"}}]<|/tool_call|>"),
            "[][Now:] f{} g{\"a\":\"<|/tool_call|\"}");
  EXPECT_EQ(Call("functools", "functools[{\"name\": \"f\", \"arguments\": {\"x\": 2}}]"),
            "[][] f{\"x\": 2}");
  EXPECT_EQ(Call("functools", "functools are [useful]"), "[][functools are [useful]]");
  EXPECT_EQ(Call("nemotron", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL> b"),
            "[][b] f{}");
}

TEST(TaggedParserTest, OnlyKnownToolsAreCalled) {
  const AnswerOptions options{.tools = {"f"}};
  for (const auto& [form, text] : std::vector<std::pair<const char*, const char*>>{
           {"llama3_json", R"({"name":"Bob","parameters":{}} is what..)"},
           {"hermes", R"(<tool_call>{"name":"Bob","arguments":{}}</tool_call> a)"},
           {"hermes", R"(<tool_call>{"arguments":{},"name":"Bob"}</tool_call> a)"},
           {"phi4", R"(<|tool_call|>[{"name":"Bob"}]<|/tool_call|>)"},
           {"functools", R"(functools[{"name":"","arguments":{}}])"},
           {"mistral", R"([TOOL_CALLS][{"name":"Bob","arguments":{}}])"},
           {"mistral", "[TOOL_CALLS]Bob[ARGS]{}"},
           {"pythonic", "[Bob(age=5)]"},
           {"pythonic", "[Bob()]"},
           {"deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>Bob<｜tool▁sep｜>{}"},
           {"deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>Bob<｜tool▁sep｜><｜tool▁call▁end｜>"},
           {"gemma", "<|tool_call>call:Bob{}<tool_call|>"}}) {
    EXPECT_EQ(Read(FormatOf(form), options, text), std::string("[][") + text + "]") << form;
  }
  EXPECT_EQ(
      Read(FormatOf("hermes"), options, R"(<tool_call>{"name":"f"}{"name":"Bob"}</tool_call> a)"),
      R"([][{"name":"Bob"} a] f{})");
}

// An object that is all of the answer may mean anything.
TEST(TaggedParserTest, WithoutAMarkACallHasArguments) {
  EXPECT_EQ(Call("llama3_json", R"({"name":"f","age":5} is what..)"),
            R"([][{"name":"f","age":5} is what..])");
  EXPECT_EQ(Call("llama3_json", R"({"name":"f"})"), R"([][{"name":"f"}])");
  EXPECT_EQ(Call("llama3_json", R"({"name":"f","type":"function","arguments":{"a":1}})"),
            R"([][] f{"a":1})");
  EXPECT_EQ(Call("llama3_json", R"({"parameters":{"a":1},"name":"f"})"), R"([][] f{"a":1})");
  EXPECT_EQ(Call("llama3_json", R"(<|python_tag|>{"name":"f"})"), "[][] f{}");
}

// More than a gateway takes.
TEST(TaggedParserTest, CallsAreBounded) {
  std::string text;
  const std::string call = R"(<tool_call>{"name":"f"}</tool_call>)";
  for (int i = 0; i < 130; ++i) text += call;
  const AnswerFormat format = FormatOf("hermes");
  const auto read = [&](const AnswerOptions& options, const std::string& all) {
    return ReadPieces(format, options, {all});
  };
  const ReadAnswer many = read({.tools = {"f"}}, text);
  EXPECT_EQ(many.calls.size(), 128U);
  EXPECT_EQ(many.text, call + call);
  for (const size_t size : {256U, 257U}) {
    const std::string name(size, 'n');
    const std::string one = "<tool_call>{\"name\":\"" + name + "\"}</tool_call>";
    EXPECT_EQ(read({.tools = {name}}, one).text, size == 256 ? "" : one);
    const ReadAnswer of_id =
        read({.tools = {"f"}}, "<tool_call>{\"id\":\"" + name + "\",\"name\":\"f\"}</tool_call>");
    ASSERT_EQ(of_id.calls.size(), 1U);
    EXPECT_EQ(of_id.calls[0].id.size(), size == 256 ? 256U : 29U);
  }
}

// The name comes first, then the arguments piece by piece.
TEST(TaggedParserTest, ArgumentsAreStreamed) {
  const AnswerFormat format = FormatOf("hermes");
  const auto parser = MakeTaggedParser(format, {.tools = TestTools()});
  const auto add = [&](std::string_view text) {
    Delta delta;
    parser->Add(text, &delta);
    return delta.tool_calls;
  };
  EXPECT_TRUE(add("<tool_call>\n{\"name\": \"f").empty());
  std::vector<ToolCallDelta> begun = add("\"");
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].name, "f");
  EXPECT_EQ(begun[0].id.size(), 29U);
  EXPECT_EQ(begun[0].arguments, "");
  EXPECT_TRUE(add(", \"arguments\": ").empty());
  std::vector<ToolCallDelta> more = add("{\"a\"");
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].index, 0);
  EXPECT_EQ(more[0].id + more[0].name, "");
  EXPECT_EQ(more[0].arguments, "{\"a\"");
}

TEST(TaggedParserTest, IdsDifferBetweenCallsAndAnswers) {
  const std::string two =
      "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>";
  const auto ids = [&](const char* form, uint64_t digest) {
    AnswerFormat format = FormatOf("hermes");
    format.calls.short_ids = std::string_view(form) == "short";
    const auto parser = MakeTaggedParser(format, {.tools = TestTools(), .digest = digest});
    Delta all;
    parser->Add(two, &all);
    std::vector<std::string> found;
    for (const ToolCallDelta& call : all.tool_calls) {
      if (!call.id.empty()) found.push_back(call.id);
    }
    return found;
  };
  const auto first = ids("long", 1);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(ids("long", 1), first);
  EXPECT_NE(ids("long", 2), first);
  for (const std::string& id : ids("short", 1)) {
    EXPECT_EQ(id.size(), 9U);
    EXPECT_TRUE(std::all_of(id.begin(), id.end(), [](char c) { return std::isalnum(c) != 0; }));
  }
}

// Each letter depends on all of the hash.
TEST(TaggedParserTest, LettersOfIdsAreOfOneKind) {
  const AnswerFormat format = FormatOf("hermes");
  std::set<std::string> middles;
  std::set<std::string> ends;
  for (uint64_t digest = 0; digest < 500; ++digest) {
    const auto parser = MakeTaggedParser(format, {.tools = TestTools(), .digest = digest});
    Delta delta;
    parser->Add("<tool_call>{\"name\":\"f\"}</tool_call>", &delta);
    const std::string id = delta.tool_calls.at(0).id;
    ASSERT_EQ(id.size(), 29U);
    middles.insert(id.substr(15, 10));
    ends.insert(id.substr(25));
  }
  EXPECT_EQ(middles.size(), 500U);
  EXPECT_GT(ends.size(), 490U);
}

}  // namespace
}  // namespace ropeway::answer
