// What becomes of a chat's answer on its way through the whole engine: thoughts, text and calls of
// tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"
#include "service/request_handle.h"

namespace ropeway::engine {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kCall =
    "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>";

// Thoughts stand in parentheses, calls are Hermes'. The fake model repeats its prompt, which is the
// last message.
class LlmEngineAnswersTest : public testing::Test {
 protected:
  LlmEngineAnswersTest() {
    answer::AnswerFormat format =
        *answer::DetectFormat("", true, {.tool_parser = "hermes", .reasoning = "none"});
    format.reasoning = {"parentheses", "(", ")"};
    test_.answers = std::make_shared<const ModelAnswers>(format, ByteTokenizer());
    test_.render_chat = [this](const Chat& chat, const StoppedFn&) {
      rendered_ = chat;
      return StatusOr(tokenizer::RenderedChat{chat.messages.back().content});
    };
  }

  static Request ChatRequest(const std::string& text, bool tools = false) {
    Request request;
    Chat chat{.messages = {{"user", text}}};
    if (tools) chat.tools = {{.name = "add"}};
    request.prompt = std::move(chat);
    request.max_tokens = static_cast<int32_t>(text.size());
    return request;
  }

  TestSink::Seen Run(const Request& request) {
    auto sink = NewSink();
    const StatusOr<RequestId> id = test_.engine->Submit(request, sink);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? sink->WaitEnd() : TestSink::Seen();
  }

  TestEngine test_;
  Chat rendered_;  // The chat that was rendered last.
};

TEST_F(LlmEngineAnswersTest, ThoughtsAreNotInTheText) {
  test_.Start();
  TestSink::Seen seen = Run(ChatRequest("(two) Four. (or)"));
  EXPECT_EQ(seen.reasoning, "two");
  EXPECT_EQ(seen.text, "Four. (or)");
  EXPECT_EQ(seen.finish->usage.reasoning_tokens, 5);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 16);
  EXPECT_THAT(seen.tokens, SizeIs(16)) << "tokens are those of all that was generated";
  // Only an answer to a chat has thoughts.
  seen = Run(TextRequest("(two) Four."));
  EXPECT_EQ(seen.reasoning, "");
  EXPECT_EQ(seen.text.substr(0, 11), "(two) Four.");
}

TEST_F(LlmEngineAnswersTest, ThePromptMayBeginTheThought) {
  test_.Start();
  const TestSink::Seen seen = Run(ChatRequest("two) 4 ("));
  EXPECT_EQ(seen.reasoning, "two");
  EXPECT_EQ(seen.text, "4 (");
  EXPECT_EQ(seen.finish->usage.reasoning_tokens, 4);
}

TEST_F(LlmEngineAnswersTest, WhatAMessageSaysBeginsNoThought) {
  test_.render_chat = [](const Chat& chat, const StoppedFn&) {
    tokenizer::RenderedChat rendered{chat.messages.back().content};
    tokenizer::AddSpan(0, rendered.text.size(), &rendered.quoted);
    return StatusOr(std::move(rendered));
  };
  test_.Start();
  EXPECT_EQ(Run(ChatRequest("two) 4 (")).text, "two) 4 (");
}

TEST_F(LlmEngineAnswersTest, ToolsAreCalled) {
  test_.Start();
  const std::string text = std::string("(h) One moment.\n") + kCall;
  const TestSink::Seen seen = Run(ChatRequest(text, true));
  EXPECT_EQ(seen.reasoning, "h");
  EXPECT_EQ(seen.text, "One moment.");
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].name, "add");
  EXPECT_EQ(seen.tool_calls[0].arguments, "{\"a\": 1}");
  // The same request has the same ids; another prompt, choice or seed has others.
  Request request = ChatRequest(text, true);
  request.sampling.seed = 7;
  const std::string id = Run(request).tool_calls[0].id;
  EXPECT_EQ(Run(request).tool_calls[0].id, id);
  request.choice = 1;
  EXPECT_NE(Run(request).tool_calls[0].id, id);
  request = ChatRequest(" " + text, true);
  request.sampling.seed = 7;
  EXPECT_NE(Run(request).tool_calls[0].id, id);
}

// Of calls whose values are raw text the tool's schema says what they are.
TEST_F(LlmEngineAnswersTest, SchemasGiveRawValuesTheirTypes) {
  test_.answers = std::make_shared<const ModelAnswers>(
      *answer::DetectFormat("", true, {.tool_parser = "qwen3_coder", .reasoning = "none"}),
      ByteTokenizer());
  test_.Start();
  const std::string text =
      "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n"
      "</parameter>\n</function>\n</tool_call>";
  Request request = ChatRequest(text, true);
  EXPECT_EQ(Run(request).tool_calls[0].arguments, "{\"a\":1,\"b\":2}");
  std::get<Chat>(request.prompt).tools[0].parameters =
      R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}})";
  const TestSink::Seen seen = Run(request);
  EXPECT_EQ(seen.text, "");
  ASSERT_THAT(seen.tool_calls, SizeIs(1));
  EXPECT_EQ(seen.tool_calls[0].name, "add");
  EXPECT_EQ(seen.tool_calls[0].arguments, "{\"a\":\"1\",\"b\":2}");
  // A required one would have to be held to a grammar, and there is none.
  std::get<Chat>(request.prompt).tool_choice = ToolChoice::kRequired;
  EXPECT_EQ(test_.engine->Submit(request, NewSink()).status().code(), StatusCode::kUnimplemented);
}

TEST_F(LlmEngineAnswersTest, WithoutToolsACallIsText) {
  test_.Start();
  TestSink::Seen seen = Run(ChatRequest(kCall));
  EXPECT_EQ(seen.text, kCall);
  EXPECT_THAT(seen.tool_calls, IsEmpty());
  Request request = ChatRequest(kCall, true);
  std::get<Chat>(request.prompt).tool_choice = ToolChoice::kNone;
  EXPECT_EQ(Run(request).text, kCall);
}

// Wherever another engine left off, only what follows is told, and all of that.
TEST_F(LlmEngineAnswersTest, AnAnswerIsReadOnInItsMiddle) {
  test_.Start();
  const std::string text = std::string("(hm) Now: ") + kCall + " ok";
  Request request = ChatRequest(text, true);
  request.sampling.seed = 3;
  std::vector<Delta> deltas;
  auto collecting = [&](RequestId, const Delta& delta) {
    deltas.push_back(delta);
    return true;
  };
  service::RequestHandles handles(test_.engine.get());
  const StatusOr<RequestHandle> whole = handles.Submit(request, collecting, nullptr);
  ASSERT_TRUE(whole.ok());
  const Result result = *whole->Wait();
  ASSERT_EQ(result.reasoning, "hm");
  ASSERT_EQ(result.text, "Now: ok");
  ASSERT_THAT(result.tool_calls, SizeIs(1));
  for (size_t done = 1; done < result.tokens.size(); ++done) {
    SCOPED_TRACE(done);
    Delta given;
    for (size_t i = 0; i < done; ++i) {
      given.text += deltas[i].text;
      given.reasoning += deltas[i].reasoning;
      given.tool_calls.insert(given.tool_calls.end(), deltas[i].tool_calls.begin(),
                              deltas[i].tool_calls.end());
    }
    Request rest = request;
    for (size_t i = 0; i < done; ++i) rest.resume_ids.push_back(result.tokens[i].id);
    const TestSink::Seen seen = Run(rest);
    EXPECT_EQ(given.text + seen.text, result.text);
    EXPECT_EQ(given.reasoning + seen.reasoning, result.reasoning);
    EXPECT_EQ(seen.finish->usage.reasoning_tokens, result.finish.usage.reasoning_tokens);
    ToolCall call;
    for (const ToolCallDelta& each : given.tool_calls) {
      call.id += each.id;
      call.name += each.name;
      call.arguments += each.arguments;
    }
    for (const ToolCall& each : seen.tool_calls) {
      call.id += each.id;
      call.name += each.name;
      call.arguments += each.arguments;
    }
    EXPECT_EQ(call.id, result.tool_calls[0].id);
    EXPECT_EQ(call.name, "add");
    EXPECT_EQ(call.arguments, result.tool_calls[0].arguments);
  }
}

TEST_F(LlmEngineAnswersTest, AFormBeginsBehindTheThought) {
  test_.Start();
  Request request = ChatRequest("(two) never ");
  request.format.kind = OutputFormat::Kind::kChoice;
  request.format.choices = {"no", "yes"};
  TestSink::Seen seen = Run(request);
  EXPECT_EQ(seen.reasoning, "two");
  EXPECT_EQ(seen.text, "no");
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
  // In a thought that the prompt began.
  request.prompt = Chat{.messages = {{"user", "two)\n\n\nnever ("}}};
  request.max_tokens = 20;
  seen = Run(request);
  EXPECT_EQ(seen.reasoning, "two");
  EXPECT_EQ(seen.text, "no");
  // Without a thought.
  request.prompt = Chat{.messages = {{"user", "never "}}};
  seen = Run(request);
  EXPECT_EQ(seen.reasoning, "");
  EXPECT_EQ(seen.text, "no");
  // A completion has no thoughts.
  request.prompt = "(two) never ";
  EXPECT_EQ(Run(request).text, "no");
}

// Where marks are no tokens, as "THINK" is none here.
TEST_F(LlmEngineAnswersTest, WithoutTokensForMarksAFormBeginsAtOnce) {
  answer::AnswerFormat format =
      *answer::DetectFormat("", true, {.tool_parser = "none", .reasoning = "none"});
  format.reasoning = {"words", "THINK", "DONE"};
  test_.answers = std::make_shared<const ModelAnswers>(format, ByteTokenizer());
  test_.Start();
  Request request = ChatRequest("never THINK");
  request.format.kind = OutputFormat::Kind::kChoice;
  request.format.choices = {"no", "yes"};
  const TestSink::Seen seen = Run(request);
  EXPECT_EQ(seen.reasoning, "");
  EXPECT_EQ(seen.text, "no");
}

TEST_F(LlmEngineAnswersTest, StopStringsEndTheTextNotTheThought) {
  test_.Start();
  Request request = ChatRequest("(two) four (or)");
  request.stop = {"ou"};
  TestSink::Seen seen = Run(request);
  EXPECT_EQ(seen.reasoning, "two");
  EXPECT_EQ(seen.text, "f");
  request.stop = {"wo"};
  seen = Run(request);
  EXPECT_EQ(seen.reasoning, "two");
  EXPECT_EQ(seen.text, "four (or)");
  EXPECT_EQ(seen.finish->reason, FinishReason::kLength);
}

// The next turn's template is given what the model thought and called, and the ids that it
// generated are kept.
TEST_F(LlmEngineAnswersTest, ASessionKeepsTheWholeAnswer) {
  test_.render_chat = [this](const Chat& chat, const StoppedFn&) {
    rendered_ = chat;
    std::string text;
    for (const ChatMessage& message : chat.messages) text += message.content;
    return StatusOr(tokenizer::RenderedChat{std::move(text)});
  };
  test_.Start();
  Request request = ChatRequest(std::string("(h)") + kCall, true);
  request.session_id = "s";
  const TestSink::Seen first = Run(request);
  ASSERT_THAT(first.tool_calls, SizeIs(1));
  request.prompt = Chat{.messages = {{.role = "tool", .content = "2", .tool_call_id = "x"}}};
  Run(request);
  ASSERT_THAT(rendered_.messages, SizeIs(3));
  const ChatMessage& answer = rendered_.messages[1];
  EXPECT_EQ(answer.role, "assistant");
  EXPECT_EQ(answer.content, "");
  EXPECT_EQ(answer.reasoning_content, "h");
  ASSERT_THAT(answer.tool_calls, SizeIs(1));
  EXPECT_EQ(answer.tool_calls[0].id, first.tool_calls[0].id);
  EXPECT_EQ(answer.tool_calls[0].arguments, "{\"a\": 1}");
}

// The limit may cut a call, and the model may write it wrongly. Such arguments would fail all later
// turns, and no client can mend them.
TEST_F(LlmEngineAnswersTest, ASessionKeepsArgumentsThatATemplateTakes) {
  test_.render_chat = [this](const Chat& chat, const StoppedFn&) {
    rendered_ = chat;
    std::string text;
    for (const ChatMessage& message : chat.messages) text += message.content;
    return StatusOr(tokenizer::RenderedChat{std::move(text)});
  };
  test_.Start();
  const std::string text = std::string(kCall) + kCall;
  Request request = ChatRequest(text, true);
  request.max_tokens = static_cast<int32_t>(text.rfind("1}}"));
  request.session_id = "s";
  const TestSink::Seen first = Run(request);
  ASSERT_THAT(first.tool_calls, SizeIs(2));
  EXPECT_EQ(first.tool_calls[1].arguments.find('}'), std::string::npos)
      << first.tool_calls[1].arguments << ": the client gets what the model wrote";
  request.prompt = Chat{.messages = {{"user", "Go on"}}};
  Run(request);
  ASSERT_THAT(rendered_.messages, SizeIs(3));
  const ChatMessage& answer = rendered_.messages[1];
  ASSERT_THAT(answer.tool_calls, SizeIs(2));
  EXPECT_EQ(answer.tool_calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(answer.tool_calls[1].id, first.tool_calls[1].id);
  EXPECT_EQ(answer.tool_calls[1].arguments, "{}");
}

}  // namespace
}  // namespace ropeway::engine
