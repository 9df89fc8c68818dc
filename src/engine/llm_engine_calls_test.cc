// Calls that a chat asks for, through the whole engine: they are held to the form that the answer
// is read by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kAdd =
    R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";

std::string HermesCall(const std::string& name, const std::string& arguments) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments +
         "}\n</tool_call>";
}

// The fake model repeats its prompt, which is the last message, as far as the form allows.
class LlmEngineCallsTest : public testing::Test {
 protected:
  void Start(const char* tool_parser = "hermes") {
    Start(*answer::DetectFormat("", true, {.tool_parser = tool_parser, .reasoning = "none"}));
  }
  void Start(answer::AnswerFormat format) {
    test_.answers = std::make_shared<const ModelAnswers>(std::move(format), ByteTokenizer());
    test_.render_chat = [](const Chat& chat, const StoppedFn&) {
      return StatusOr(tokenizer::RenderedChat{chat.messages.back().content});
    };
    test_.Start();
  }

  static Request Ask(const std::string& text, ToolChoice choice, const std::string& name = {}) {
    Request request;
    request.prompt = Chat{.messages = {{"user", text}},
                          .tools = {{.name = "add", .parameters = kAdd}, {.name = "now"}},
                          .tool_choice = choice,
                          .tool_name = name};
    request.max_tokens = 300;
    return request;
  }

  TestSink::Seen Run(const Request& request) {
    auto sink = NewSink();
    const StatusOr<RequestId> id = test_.engine->Submit(request, sink);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? sink->WaitEnd() : TestSink::Seen();
  }
  Status Fault(const Request& request) { return test_.engine->Submit(request, NewSink()).status(); }

  TestEngine test_;
};

TEST_F(LlmEngineCallsTest, ARequiredCallIsMadeWhateverTheModelWouldSay) {
  Start();
  TestSink::Seen seen = Run(Ask("Hello there.", ToolChoice::kRequired, "now"));
  EXPECT_EQ(seen.text, "");
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].name, "now");
  EXPECT_EQ(seen.tool_calls[0].arguments, "{}");
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
  // What the model wants to say counts, as far as the form allows.
  Request request = Ask(HermesCall("add", "{\"a\": 42}"), ToolChoice::kRequired);
  std::get<Chat>(request.prompt).parallel_tool_calls = false;
  seen = Run(request);
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].name, "add");
  EXPECT_EQ(seen.tool_calls[0].arguments, "{\"a\": 42}");
}

TEST_F(LlmEngineCallsTest, OfACallThatIsCutNothingIsInventedOrText) {
  Start();
  const std::string call = HermesCall("now", "{}");
  for (size_t size = 1; size < call.size(); ++size) {
    Request request = Ask(call, ToolChoice::kRequired, "now");
    request.max_tokens = static_cast<int32_t>(size);
    const TestSink::Seen seen = Run(request);
    EXPECT_EQ(seen.text, "") << size;
    EXPECT_EQ(seen.finish->reason, FinishReason::kLength);
    ASSERT_LE(seen.tool_calls.size(), 1U);
    if (seen.tool_calls.empty() || size >= call.find("{}") + 2) continue;
    EXPECT_NE(seen.tool_calls[0].arguments, "{}") << size;
  }
  // Where text may come it stays text.
  Request request = Ask("<tool_ca", ToolChoice::kAuto);
  request.max_tokens = 8;
  EXPECT_EQ(Run(request).text, "<tool_ca");
}

TEST_F(LlmEngineCallsTest, StopStringsEndTheTextNotACall) {
  Start();
  const std::string call = HermesCall("add", "{\"a\": 42}");
  const std::string text = "Hm, so. " + call + " End; more";
  for (const char* stop : {"name", "arguments", ",", "}", "add", "\n", "tool", "{\"", "42"}) {
    SCOPED_TRACE(stop);
    Request request = Ask(call, ToolChoice::kRequired);
    std::get<Chat>(request.prompt).parallel_tool_calls = false;
    request.stop = {stop};
    TestSink::Seen seen = Run(request);
    EXPECT_EQ(seen.text, "");
    EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
    ASSERT_THAT(seen.tool_calls, SizeIs(1));
    EXPECT_EQ(seen.tool_calls[0].arguments, "{\"a\": 42}");
    // Beside text.
    request = Ask(text, ToolChoice::kAuto);
    request.max_tokens = static_cast<int32_t>(text.size());
    request.stop = {stop, "d; m"};
    request.sampling.seed = 3;
    seen = Run(request);
    EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
    if (std::string_view(stop) == ",") {
      EXPECT_EQ(seen.text, "Hm");
      EXPECT_THAT(seen.tool_calls, IsEmpty());
      continue;
    }
    EXPECT_EQ(seen.text, "Hm, so. En");
    ASSERT_THAT(seen.tool_calls, SizeIs(1));
    EXPECT_EQ(seen.tool_calls[0].arguments, "{\"a\": 42}");
    // As another engine would have gone on.
    for (size_t done = 1; done < seen.tokens.size(); ++done) {
      Request rest = request;
      for (size_t i = 0; i < done; ++i) rest.resume_ids.push_back(seen.tokens[i].id);
      const TestSink::Seen resumed = Run(rest);
      EXPECT_EQ(resumed.tokens.size(), seen.tokens.size() - done);
      EXPECT_TRUE(seen.text.ends_with(resumed.text)) << resumed.text;
      EXPECT_EQ(resumed.finish->reason, FinishReason::kStop);
    }
  }
}

TEST_F(LlmEngineCallsTest, TheModelMayThinkBeforeItsCall) {
  answer::AnswerFormat format =
      *answer::DetectFormat("", true, {.tool_parser = "hermes", .reasoning = "none"});
  format.reasoning = {"parentheses", "(", ")"};
  Start(std::move(format));
  const TestSink::Seen seen = Run(Ask("(two) Hello there.", ToolChoice::kRequired, "now"));
  EXPECT_EQ(seen.reasoning, "two");
  EXPECT_EQ(seen.text, "");
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].name, "now");
}

TEST_F(LlmEngineCallsTest, AutoIsHeldToNothingButStrictTools) {
  Start();
  const std::string wrong = "Hm. " + HermesCall("add", "{\"b\": 1}");
  Request request = Ask(wrong, ToolChoice::kAuto);
  request.max_tokens = static_cast<int32_t>(wrong.size());
  TestSink::Seen seen = Run(request);
  EXPECT_EQ(seen.text, "Hm.");
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].arguments, "{\"b\": 1}");
  std::get<Chat>(request.prompt).tools[0].strict = true;
  seen = Run(request);
  EXPECT_EQ(seen.text, "Hm.");
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].name, "add");
  EXPECT_THAT(seen.tool_calls[0].arguments, HasSubstr("\"a\""));
  EXPECT_THAT(seen.tool_calls[0].arguments, testing::Not(HasSubstr("\"b\"")));
  // Text alone stays text.
  request = Ask("Hello there.", ToolChoice::kAuto);
  std::get<Chat>(request.prompt).tools[1].strict = true;
  request.max_tokens = 12;
  seen = Run(request);
  EXPECT_EQ(seen.text, "Hello there.");
  EXPECT_THAT(seen.tool_calls, IsEmpty());
}

// Its bytes are no text: only the form may write it, and it does.
TEST_F(LlmEngineCallsTest, MarksMayBeControlTokens) {
  answer::AnswerFormat format;
  format.calls = {
      .name = "ctl", .syntax = answer::CallSyntax::kTagged, .begin = "<ctl>", .end = "</ctl>"};
  format.controls = {"<ctl>"};
  Start(format);
  TestSink::Seen seen = Run(Ask("Hello there.", ToolChoice::kRequired, "now"));
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].name, "now");
  EXPECT_EQ(seen.tokens[0].id, ByteTokenizer::kControl);
  Request request = Ask("No <ctl> here", ToolChoice::kAuto);
  std::get<Chat>(request.prompt).tools[0].strict = true;
  request.max_tokens = 13;
  seen = Run(request);
  EXPECT_EQ(seen.text, "No <ctl> here") << "ordinary tokens make no mark";
}

TEST_F(LlmEngineCallsTest, EachChoiceOfARequestCalls) {
  Start();
  std::vector<SinkRequest> all;
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (uint32_t choice = 0; choice < 3; ++choice) {
    Request request = Ask("Hello there.", ToolChoice::kRequired, "now");
    request.choice = choice;
    sinks.push_back(NewSink());
    all.push_back({std::move(request), sinks.back()});
  }
  ASSERT_TRUE(test_.engine->SubmitAll(std::move(all)).ok());
  for (const auto& sink : sinks) EXPECT_THAT(sink->WaitEnd().tool_calls, SizeIs(1));
  EXPECT_THAT(test_.engine->MetricsText(), HasSubstr("ropeway_grammar_cache_misses_total 1"));
}

TEST_F(LlmEngineCallsTest, ACallGoesOnWhereAnotherEngineLeftOff) {
  Start();
  Request request = Ask("Hello there.", ToolChoice::kRequired, "now");
  request.sampling.seed = 3;
  const TestSink::Seen whole = Run(request);
  ASSERT_THAT(whole.tool_calls, SizeIs(1));
  for (size_t done = 1; done < whole.tokens.size(); ++done) {
    SCOPED_TRACE(done);
    Request rest = request;
    for (size_t i = 0; i < done; ++i) rest.resume_ids.push_back(whole.tokens[i].id);
    const TestSink::Seen seen = Run(rest);
    EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
    EXPECT_EQ(seen.tokens.size(), whole.tokens.size() - done);
    EXPECT_EQ(seen.text, "");
  }
}

TEST_F(LlmEngineCallsTest, WithoutATemplateNoFormIsLookedAt) {
  test_.Start();
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNone}) {
    Request request = Ask("a", choice);
    std::get<Chat>(request.prompt).tools[1].parameters = R"({"not":{}})";
    request.format.kind = OutputFormat::Kind::kJsonSchema;
    request.format.schema = R"({"not":{}})";
    const Status fault = Fault(request);
    EXPECT_EQ(fault.field(), "messages");
    EXPECT_THAT(fault.message(), HasSubstr("no chat template"));
  }
}

TEST_F(LlmEngineCallsTest, ParametersOfNothingAreNoArguments) {
  Start();
  Request request = Ask("Hello there.", ToolChoice::kRequired, "now");
  std::get<Chat>(request.prompt).tools[1].parameters = "{}";
  const TestSink::Seen seen = Run(request);
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].arguments, "{}");
}

TEST_F(LlmEngineCallsTest, WhatCannotBeHeldIsRejectedAtOnce) {
  Start();
  Request request = Ask("a", ToolChoice::kRequired);
  std::get<Chat>(request.prompt).tools[1].parameters =
      R"({"type":"object","properties":{"a":{"not":{}}}})";
  Status fault = Fault(request);
  EXPECT_EQ(fault.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(fault.field(), "tools[1].function.parameters");
  EXPECT_THAT(fault.message(), HasSubstr("'not'"));
  std::get<Chat>(request.prompt).tool_choice = ToolChoice::kAuto;
  request.max_tokens = 1;
  EXPECT_EQ(Run(request).text, "a") << "nothing holds it";
  // Beside a form nothing is free.
  request = Ask("a", ToolChoice::kAuto);
  request.format.kind = OutputFormat::Kind::kJsonSchema;
  request.format.schema = R"({"not": {}})";
  request.format.field = "guided_json";
  EXPECT_EQ(Fault(request).field(), "guided_json");
}

Request WithForm(Request request) {
  request.format.kind = OutputFormat::Kind::kJsonSchema;
  request.format.schema = R"({"type":"object","properties":{"name":{"type":"string",
      "maxLength":20},"arguments":{"type":"object"}},"required":["name"]})";
  request.format.field = "response_format";
  return request;
}

TEST_F(LlmEngineCallsTest, BesideAFormTheModelCallsOrAnswersByIt) {
  Start();
  const std::string text = R"({"name": "now", "arguments": {}})";
  TestSink::Seen seen = Run(WithForm(Ask(text, ToolChoice::kAuto)));
  EXPECT_EQ(seen.text, text);
  EXPECT_THAT(seen.tool_calls, IsEmpty());
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
  // A call within the text is text.
  const std::string inside = R"({"name": "<tool_call>\n{"})";
  EXPECT_EQ(Run(WithForm(Ask(inside, ToolChoice::kAuto))).text, inside);
  seen = Run(WithForm(Ask(HermesCall("now", "{}"), ToolChoice::kAuto)));
  EXPECT_EQ(seen.text, "");
  ASSERT_THAT(seen.tool_calls, SizeIs(testing::Ge(1U)));
  EXPECT_EQ(seen.tool_calls[0].name, "now");
  EXPECT_EQ(seen.tool_calls[0].arguments, "{}");
  // What would be neither is one of both.
  seen = Run(WithForm(Ask("Hello there.", ToolChoice::kAuto)));
  EXPECT_NE(seen.text.empty(), seen.tool_calls.empty());
  // Where a call is required, the form is no way out of it; where none may be, it is the only one.
  seen = Run(WithForm(Ask(text, ToolChoice::kRequired, "now")));
  EXPECT_EQ(seen.text, "");
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  seen = Run(WithForm(Ask(HermesCall("now", "{}"), ToolChoice::kNone)));
  EXPECT_THAT(seen.text, testing::StartsWith("{"));
  EXPECT_THAT(seen.tool_calls, IsEmpty());
}

TEST_F(LlmEngineCallsTest, BareCallsAndObjectsAreToldApart) {
  Start("llama3_json");
  const std::string text = R"({"name": "now", "arguments": {}})";
  TestSink::Seen seen = Run(WithForm(Ask(text, ToolChoice::kAuto)));
  EXPECT_EQ(seen.text, text);
  EXPECT_THAT(seen.tool_calls, IsEmpty());
  Request request = WithForm(Ask(R"({"name": "now", "parameters": {}})", ToolChoice::kAuto));
  std::get<Chat>(request.prompt).parallel_tool_calls = false;
  seen = Run(request);
  EXPECT_EQ(seen.text, "");
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].name, "now");
  request.format.schema = "{}";
  EXPECT_EQ(Fault(request).field(), "response_format");
}

TEST_F(LlmEngineCallsTest, ThoughtsComeBeforeCallsOrTheForm) {
  answer::AnswerFormat format =
      *answer::DetectFormat("", true, {.tool_parser = "hermes", .reasoning = "none"});
  format.reasoning = {"parentheses", "(", ")"};
  Start(std::move(format));
  for (const std::string begin : {"(two) ", "(two)\n\n", ""}) {
    const std::string thought = begin.empty() ? "" : "two";
    TestSink::Seen seen = Run(WithForm(Ask(begin + R"({"name": "x"})", ToolChoice::kAuto)));
    EXPECT_EQ(seen.reasoning, thought);
    EXPECT_EQ(seen.text, R"({"name": "x"})");
    Request request = WithForm(Ask(begin + HermesCall("now", "{}"), ToolChoice::kAuto));
    std::get<Chat>(request.prompt).parallel_tool_calls = false;
    seen = Run(request);
    EXPECT_EQ(seen.reasoning, thought);
    EXPECT_EQ(seen.text, "");
    EXPECT_THAT(seen.tool_calls, SizeIs(1));
  }
}

TEST_F(LlmEngineCallsTest, ChoicesShareAGrammarOnlyOfTheSameForm) {
  Start();
  std::vector<SinkRequest> all;
  std::vector<std::shared_ptr<TestSink>> sinks;
  const auto add = [&](Request request) {
    sinks.push_back(NewSink());
    all.push_back({std::move(request), sinks.back()});
  };
  add(WithForm(Ask("{", ToolChoice::kAuto)));
  add(WithForm(Ask("{", ToolChoice::kAuto)));
  add(Ask("Hello", ToolChoice::kAuto));
  all.back().request.max_tokens = 5;
  ASSERT_TRUE(test_.engine->SubmitAll(std::move(all)).ok());
  EXPECT_THAT(sinks[0]->WaitEnd().text, testing::StartsWith("{"));
  EXPECT_THAT(sinks[1]->WaitEnd().text, testing::StartsWith("{"));
  EXPECT_EQ(sinks[2]->WaitEnd().text, "Hello");
}

TEST_F(LlmEngineCallsTest, AModelWithoutAKnownFormCallsNone) {
  Start("none");
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired}) {
    const Status fault = Fault(Ask("a", choice));
    EXPECT_EQ(fault.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(fault.field(), "tool_choice");
    EXPECT_THAT(fault.message(), HasSubstr("--tool-parser"));
  }
  Request request = Ask("a", ToolChoice::kNone);
  request.max_tokens = 1;
  EXPECT_EQ(Run(request).text, "a");
}

}  // namespace
}  // namespace ropeway::engine
