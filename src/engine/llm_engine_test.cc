#include "engine/llm_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine_options.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

StatusOr<std::vector<TokenId>> AllIds(
    StatusOr<std::unique_ptr<service::Tokenization>> tokenization) {
  if (!tokenization.ok()) return tokenization.status();
  StatusOr<bool> done = false;
  while (done.ok() && !*done) done = (*tokenization)->Step();
  if (!done.ok()) return done.status();
  return (*tokenization)->Take();
}

TEST(LlmEngineTest, StreamsTokenByTokenAndReportsHowItEnded) {
  TestEngine test;
  test.Start();
  auto sink = NewSink();
  test.Submit("hello ", 9, sink);
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "hello hel");
  EXPECT_EQ(seen.deltas, 9);
  ASSERT_EQ(seen.tokens.size(), 9U);
  EXPECT_EQ(seen.tokens[7].bytes, "e");
  EXPECT_EQ(seen.tokens[7].text_offset, 7U);
  EXPECT_EQ(seen.prompt_tokens, 6);
  ASSERT_TRUE(seen.finish);
  EXPECT_EQ(seen.finish->reason, FinishReason::kLength);
  EXPECT_EQ(seen.finish->usage.prompt_tokens, 6);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 9);
  EXPECT_GE(seen.finish->first_token_step, 1U);
}

TEST(LlmEngineTest, EndTokenIsCountedAndNotShown) {
  TestEngine test;
  test.Start();
  Request request;
  request.prompt = std::vector<TokenId>{'o', 'k', ByteTokenizer::kEnd};
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "ok");
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 3);
  EXPECT_EQ(seen.tokens.back().id, ByteTokenizer::kEnd);

  request.ignore_eos = true;
  request.max_tokens = 5;
  sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "okok");
  EXPECT_EQ(seen.finish->reason, FinishReason::kLength);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 5);
}

TEST(LlmEngineTest, AStopTokenIsCountedAndNotShown) {
  TestEngine test;
  test.Start();
  Request request = TextRequest("one. two");
  request.stop_token_ids = {'.', 't'};
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "one");
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 4);
  EXPECT_EQ(seen.tokens.back().bytes, ".");
}

TEST(LlmEngineTest, StopStringsAreNotLookedForBeforeMinTokens) {
  TestEngine test;
  test.Start();
  Request request = TextRequest("ENDEND");
  request.stop = {"END"};
  const auto run = [&](int32_t min_tokens) {
    request.sampling.min_tokens = min_tokens;
    auto sink = NewSink();
    EXPECT_TRUE(test.engine->Submit(request, sink).ok());
    return sink->WaitEnd();
  };
  EXPECT_EQ(run(0).text, "");
  EXPECT_EQ(run(1).text, "");
  // The search begins behind the E: the first END that begins after it ends the text.
  const TestSink::Seen seen = run(2);
  EXPECT_EQ(seen.text, "END");
  EXPECT_EQ(seen.finish->usage.completion_tokens, 6);
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
}

TEST(LlmEngineTest, PromptLogprobsComeFirstAndTellWhereEachTokenBegins) {
  TestEngine test;
  test.options.scheduler.max_num_batched_tokens = 2;
  test.Start();
  Request request = TextRequest("abc");
  std::get<std::string>(request.prompt) += "de";
  request.prompt_logprobs = 1;
  request.max_tokens = 2;
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "ab");
  ASSERT_EQ(seen.prompt.size(), 5U);
  EXPECT_TRUE(std::isnan(seen.prompt[0].logprob));
  EXPECT_TRUE(seen.prompt[0].top_logprobs.empty());
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(seen.prompt[i].bytes, std::string(1, "abcde"[i]));
    EXPECT_EQ(seen.prompt[i].text_offset, i);
    EXPECT_EQ(seen.prompt[i].logprob, -0.25F * static_cast<float>(i));
    EXPECT_EQ(seen.prompt[i].top_bytes.size(), 1U);
  }
  EXPECT_EQ(seen.tokens[0].logprob, 0.0F) << "not asked for";
}

TEST(LlmEngineTest, NoTokenIsAValidWish) {
  TestEngine test;
  test.options.model.max_model_len = 32;
  test.Start();
  Request request = TextRequest(std::string(32, 'x'));
  request.prompt_logprobs = 0;
  request.max_tokens = 0;
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.prompt.size(), 32U);
  EXPECT_TRUE(seen.tokens.empty());
  EXPECT_EQ(seen.finish->reason, FinishReason::kLength);
  EXPECT_EQ(seen.finish->usage.prompt_tokens, 32);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 0);
  ASSERT_TRUE(test.engine->Drain(seconds(60)).ok());
  EXPECT_THAT(test.engine->MetricsText(), HasSubstr("ropeway_prompt_tokens_total 32\n"));
}

TEST(LlmEngineTest, AModelWithoutLogitsFailsThatRequestAndNoOther) {
  TestEngine test;
  test.control->no_logit_for = 1;
  test.Start();
  auto broken = NewSink();
  auto healthy = NewSink();
  test.Submit("abc", 5, broken);
  test.Submit("abc", 5, healthy);
  EXPECT_EQ(broken->WaitEnd().error.message(), "the model produced no finite logit");
  EXPECT_EQ(broken->Get().text, "a");
  EXPECT_EQ(healthy->WaitEnd().text, "abcab");
  EXPECT_TRUE(test.engine->GetHealth().live) << "no device is lost";
}

TEST(LlmEngineTest, AbsentMaxTokensMeansWhatIsLeft) {
  TestEngine test;
  test.options.model.max_model_len = 40;
  test.Start();
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(TextRequest("0123456789"), sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.finish->usage.completion_tokens, 30);
  EXPECT_EQ(seen.finish->reason, FinishReason::kLength);
}

TEST(LlmEngineTest, StopStringAcrossTokensEndsTheText) {
  TestEngine test;
  test.Start();
  Request request = TextRequest("abc END more");
  request.stop = {"never", "END"};
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "abc ");
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
  EXPECT_EQ(seen.finish->stop, 1);
  // The three tokens of the stop string were generated; what came after was not.
  EXPECT_EQ(seen.finish->usage.completion_tokens, 7);
  EXPECT_EQ(seen.tokens.size(), 7U);
}

TEST(LlmEngineTest, WhatMightHaveBecomeAStopStringIsSentAtTheEnd) {
  TestEngine test;
  test.Start();
  Request request = TextRequest("abcEN");
  request.stop = {"END"};
  request.max_tokens = 5;
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "abcEN");
  EXPECT_EQ(seen.finish->stop, -1);
}

TEST(LlmEngineTest, CharactersAreNeverSplit) {
  TestEngine test;
  test.Start();
  const std::string text = "gr\xC3\xBC\xC3\x9F \xF0\x9F\x9A\xA1!";  // "grüß 🚡!"
  auto sink = NewSink();
  test.Submit(text, static_cast<int32_t>(text.size()), sink);
  TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, text);
  EXPECT_EQ(seen.deltas, static_cast<int>(text.size()));
  EXPECT_EQ(seen.tokens[2].bytes, "\xC3");
  // Cut within the gondola: the rest of it never comes.
  sink = NewSink();
  test.Submit(text, 9, sink);
  EXPECT_EQ(sink->WaitEnd().text, "gr\xC3\xBC\xC3\x9F \xEF\xBF\xBD");
}

TEST(LlmEngineTest, SeedsAreKeptOrDrawnAndReported) {
  TestEngine test;
  test.Start();
  Request request = TextRequest("x");
  request.max_tokens = 1;
  request.sampling.seed = 77;
  auto given = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, given).ok());
  EXPECT_EQ(given->WaitEnd().finish->seed, 77U);
  request.sampling.seed.reset();
  auto drawn = NewSink();
  auto other = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, drawn).ok());
  ASSERT_TRUE(test.engine->Submit(request, other).ok());
  EXPECT_NE(drawn->WaitEnd().finish->seed, other->WaitEnd().finish->seed);
  base::SeededRandom same(1);
  EXPECT_EQ(drawn->Get().finish->seed, same.Next64());
}

TEST(LlmEngineTest, LogprobsOnlyWhereAsked) {
  TestEngine test;
  test.Start();
  Request request = TextRequest("ab");
  request.max_tokens = 2;
  request.logprobs = 2;
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.tokens[1].logprob, -0.5F);
  ASSERT_EQ(seen.tokens[1].top_logprobs.size(), 2U);
  EXPECT_EQ(seen.tokens[1].top_bytes[1], "\x01");
}

TEST(LlmEngineTest, MalformedRequestsAreRejectedByNameOfTheField) {
  TestEngine test;
  test.Start();
  const auto field_of = [&](void (*change)(Request&)) {
    Request request = TextRequest("x");
    change(request);
    auto sink = NewSink();
    const StatusOr<RequestId> id = test.engine->Submit(std::move(request), sink);
    EXPECT_EQ(sink.use_count(), 1) << "the sink was kept";
    EXPECT_EQ(sink->Get().ends, 0);
    if (id.ok()) return std::string("accepted");
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
    return id.status().field();
  };
  EXPECT_EQ(field_of([](Request& r) { r.max_tokens = -1; }), "max_tokens");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.min_tokens = -1; }), "min_tokens");
  EXPECT_EQ(field_of([](Request& r) { r.max_tokens = 3, r.sampling.min_tokens = 4; }),
            "min_tokens");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.typical_p = 0; }), "typical_p");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.typical_p = NAN; }), "typical_p");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.presence_penalty = 2.5F; }), "presence_penalty");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.frequency_penalty = NAN; }), "frequency_penalty");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.repetition_penalty = 0; }), "repetition_penalty");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.repetition_penalty = INFINITY; }),
            "repetition_penalty");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.logit_bias = {{1, NAN}}; }), "logit_bias");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.logit_bias = {{1, 101}}; }), "logit_bias");
  EXPECT_EQ(field_of([](Request& r) {
              r.sampling.logit_bias = {{1, 1}, {2, 1}, {1, 2}};
            }),
            "logit_bias");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.logit_bias.resize(1025); }), "logit_bias");
  EXPECT_EQ(field_of([](Request& r) { r.stop_token_ids.resize(129); }), "stop_token_ids");
  EXPECT_EQ(field_of([](Request& r) { r.timeout = std::chrono::milliseconds(0); }), "timeout");
  EXPECT_EQ(field_of([](Request& r) { r.prompt_logprobs = 21; }), "prompt_logprobs");
  EXPECT_EQ(field_of([](Request& r) { r.prompt_logprobs = -1; }), "prompt_logprobs");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.temperature = -1; }), "temperature");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.temperature = NAN; }), "temperature");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.top_k = -2; }), "top_k");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.top_p = 0; }), "top_p");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.min_p = 1.5F; }), "min_p");
  EXPECT_EQ(field_of([](Request& r) { r.stop = {"a", ""}; }), "stop");
  EXPECT_EQ(field_of([](Request& r) { r.stop.assign(17, "a"); }), "stop");
  EXPECT_EQ(field_of([](Request& r) { r.stop = {std::string(1025, 'a')}; }), "stop");
  EXPECT_EQ(field_of([](Request& r) { r.logprobs = 21; }), "logprobs");
  EXPECT_EQ(field_of([](Request& r) { r.prompt = std::vector<TokenId>{}; }), "prompt");
  EXPECT_EQ(field_of([](Request& r) { r.prompt = Chat{.messages = {}}; }), "messages");
}

TEST(LlmEngineTest, TheModelIsFoundByItsNamesOrDefault) {
  TestEngine test;
  test.options.model.aliases = {"canary"};
  test.Start();
  for (const char* name : {"", "default", "echo", "canary"}) {
    Request request = TextRequest("x");
    request.model = name;
    request.max_tokens = 1;
    EXPECT_TRUE(test.engine->Submit(request, NewSink()).ok()) << name;
  }
  Request request = TextRequest("x");
  request.model = "gpt-9";
  const Status missing = test.engine->Submit(request, NewSink()).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(),
            "The model 'gpt-9' does not exist; this server has 'echo', 'canary'.");
  ASSERT_EQ(test.engine->Models().size(), 1U);
  EXPECT_EQ(test.engine->Models()[0].id, "echo");
  EXPECT_EQ(test.engine->Models()[0].max_model_len, 4096);
}

TEST(LlmEngineTest, WhatCanNeverFitEndsAsAnError) {
  TestEngine test;
  test.options.model.max_model_len = 32;
  test.Start();
  const auto error_of = [&](Request request) {
    auto sink = NewSink();
    EXPECT_TRUE(test.engine->Submit(std::move(request), sink).ok());
    const TestSink::Seen seen = sink->WaitEnd();
    EXPECT_FALSE(seen.admitted);
    EXPECT_EQ(seen.error.code(), StatusCode::kInvalidArgument);
    return seen.error;
  };
  EXPECT_THAT(error_of(TextRequest(std::string(32, 'x'))).message(),
              HasSubstr("the prompt (32 tokens) plus at least one token to generate exceeds the "
                        "model's limit of 32 tokens"));
  EXPECT_THAT(error_of(TextRequest(std::string(1 << 20, 'x'))).message(),
              HasSubstr("1048576 bytes"));
  EXPECT_EQ(error_of(TextRequest("")).field(), "prompt");
  EXPECT_EQ(error_of(TextRequest("")).message(), "the prompt is empty");
  Request request = TextRequest("0123456789");
  request.max_tokens = 0;
  request.prompt = std::string(33, 'x');
  EXPECT_EQ(error_of(request).message(),
            "the prompt (33 tokens) exceeds the model's limit of 32 tokens");
  request.max_tokens.reset();
  request.prompt = "0123456789";
  request.sampling.min_tokens = 23;
  EXPECT_EQ(
      error_of(request).message(),
      "min_tokens is 23, but the prompt's 10 tokens leave only 22 of the model's limit of 32");
  request.sampling.min_tokens = 0;
  request.prompt = std::vector<TokenId>{1, 258};
  EXPECT_THAT(error_of(request).message(), HasSubstr("token id 258"));
  request.prompt = "x";
  request.stop_token_ids = {5, -1};
  EXPECT_EQ(error_of(request).message(),
            "token id -1 in stop_token_ids is not in the model's vocabulary of 258");
  request.stop_token_ids.clear();
  request.sampling.logit_bias = {{258, 1.0F}};
  EXPECT_EQ(error_of(request).field(), "logit_bias");
  request.sampling.logit_bias.clear();
}

TEST(LlmEngineTest, ChatsGoThroughTheTemplate) {
  TestEngine test;
  test.render_chat = [](const Chat& chat, const StoppedFn&) -> StatusOr<tokenizer::RenderedChat> {
    if (chat.messages[0].role == "bad") return InvalidArgument("no such role", "messages");
    return tokenizer::RenderedChat{"<" + chat.messages[0].content + ">"};
  };
  test.Start();
  Request request;
  request.prompt = Chat{.messages = {{"user", "hi"}}};
  request.max_tokens = 4;
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  EXPECT_EQ(sink->WaitEnd().text, "<hi>");
  request.prompt = Chat{.messages = {{"bad", "hi"}}};
  sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  EXPECT_EQ(sink->WaitEnd().error.message(), "no such role");
}

// The code and the field are OpenAI's, by which clients shorten a chat.
TEST(LlmEngineTest, WhateverDoesNotFitTheContextSaysSo) {
  TestEngine test;
  test.options.model.max_model_len = 32;
  test.render_chat = [](const Chat& chat, const StoppedFn&) {
    return StatusOr(tokenizer::RenderedChat{chat.messages[0].content});
  };
  test.Start();
  using Prompt = decltype(Request::prompt);
  const auto chat = [](size_t bytes) {
    return Prompt(Chat{.messages = {{"user", std::string(bytes, 'x')}}});
  };
  const auto text = [](size_t bytes) { return Prompt(std::string(bytes, 'x')); };
  const auto ids = [](size_t count) { return Prompt(std::vector<TokenId>(count, 'x')); };
  struct Case {
    Prompt prompt;
    std::optional<int32_t> max_tokens;
    const char* field;
  };
  for (Case& one : std::vector<Case>{{chat(32), {}, "messages"},
                                     {chat(100'000), 1, "messages"},
                                     {text(32), 1, "prompt"},
                                     {text(100'000), {}, "prompt"},
                                     {ids(33), 0, "prompt"}}) {
    Request request;
    request.prompt = std::move(one.prompt);
    request.max_tokens = one.max_tokens;
    if (request.max_tokens == 0) request.prompt_logprobs = 0;
    auto sink = NewSink();
    ASSERT_TRUE(test.engine->Submit(std::move(request), sink).ok());
    const Status status = sink->WaitEnd().error;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << one.field;
    EXPECT_EQ(status.field(), one.field) << status.message();
    EXPECT_STREQ(status.api_code(), "context_length_exceeded") << status.message();
  }
}

// Once, before it is queued: what waits, what is estimated and what is resumed know the lower one.
TEST(LlmEngineTest, MaxTokensIsLoweredToWhatThePromptLeaves) {
  TestEngine test;
  test.options.model.max_model_len = 32;
  test.Start();
  const auto finish_of = [&](Request request) {
    request.ignore_eos = true;
    auto sink = NewSink();
    EXPECT_TRUE(test.engine->Submit(std::move(request), sink).ok());
    const TestSink::Seen end = sink->WaitEnd();
    EXPECT_TRUE(end.finish.has_value()) << end.error.message();
    return end.finish.value_or(Finish());
  };
  Request request = TextRequest("0123456789");
  for (const int32_t asked : {23, INT32_MAX}) {
    request.max_tokens = asked;
    const Finish lowered = finish_of(request);
    EXPECT_EQ(lowered.max_tokens, 22);
    EXPECT_EQ(lowered.usage.completion_tokens, 22);
    EXPECT_EQ(lowered.reason, FinishReason::kLength);
  }
  request.sampling.min_tokens = 22;
  EXPECT_EQ(finish_of(request).max_tokens, 22);
  request.max_tokens = 22;
  EXPECT_EQ(finish_of(request).max_tokens, 0) << "it fits";
  request.max_tokens.reset();
  EXPECT_EQ(finish_of(request).max_tokens, 0) << "none was asked for";
  request.sampling.min_tokens = 23;
  request.max_tokens = 40;
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  EXPECT_EQ(sink->WaitEnd().error.field(), "min_tokens");
}

TEST(LlmEngineTest, TokenizeAndDetokenize) {
  TestEngine test;
  test.Start();
  EXPECT_EQ(*AllIds(test.engine->Tokenize("ab", true)), (std::vector<TokenId>{'a', 'b'}));
  EXPECT_EQ(*test.engine->Detokenize({'a', ByteTokenizer::kEnd}), "a<end>");
  EXPECT_EQ(test.engine->Detokenize({300}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(test.engine->Detokenize({-1}).status().code(), StatusCode::kInvalidArgument);
}

// Each step does a part of a long rendering, and none is done once the caller has dropped it.
TEST(LlmEngineTest, AChatIsRenderedInStepsToBeTokenized) {
  TestEngine test;
  bool over = false;
  test.render_chat = [&over](const Chat& chat,
                             const StoppedFn& stopped) -> StatusOr<tokenizer::RenderedChat> {
    size_t held = 0;
    while (held < 5000 || chat.messages[0].content == "endless") {
      over = stopped(held += 1000);
      if (over) return Status(StatusCode::kCancelled, "stopped");
    }
    return tokenizer::RenderedChat{chat.messages[0].content};
  };
  test.Start();
  const auto begin = [&](const std::string& content) {
    return *test.engine->TokenizeChat({.messages = {{"user", content}}}, false);
  };
  std::unique_ptr<service::Tokenization> tokenization = begin("ab");
  for (size_t held = 1000; held <= 5000; held += 1000) {
    EXPECT_FALSE(*tokenization->Step());
    EXPECT_GE(tokenization->bytes(), held);
    EXPECT_LT(tokenization->bytes(), held + 1000);
  }
  while (!*tokenization->Step()) {
  }
  EXPECT_EQ(tokenization->Take(), (std::vector<TokenId>{'a', 'b'}));
  tokenization = begin("endless");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(*tokenization->Step());
  EXPECT_FALSE(over);
  tokenization.reset();
  EXPECT_TRUE(over);
}

TEST(LlmEngineTest, AChatIsTokenizedAsItWouldBeServed) {
  TestEngine test;
  test.render_chat = [](const Chat& chat, const StoppedFn&) -> StatusOr<tokenizer::RenderedChat> {
    if (chat.messages[0].role == "bad") return InvalidArgument("no such role", "messages");
    return tokenizer::RenderedChat{chat.messages[0].content +
                                   (chat.add_generation_prompt ? ">" : "")};
  };
  test.Start();
  const auto ids = [&](const ChatMessage& message, bool add_generation_prompt) {
    return AllIds(test.engine->TokenizeChat(
        {.messages = {message}, .add_generation_prompt = add_generation_prompt}, false));
  };
  EXPECT_EQ(*ids({"user", "a"}, true), (std::vector<TokenId>{'a', '>'}));
  EXPECT_EQ(*ids({"user", "a"}, false), (std::vector<TokenId>{'a'}));
  EXPECT_EQ(ids({"bad", "a"}, true).status().message(), "no such role");
  EXPECT_EQ(test.engine->TokenizeChat({}, false).status().field(), "messages");
  EXPECT_EQ(ids({"user", ByteTokenizer::kPoison}, true).status().code(),
            StatusCode::kResourceExhausted);
  TestEngine none;
  none.Start();
  EXPECT_EQ(none.engine->TokenizeChat({.messages = {{"user", "a"}}}, false).status().field(),
            "messages");
}

TEST(LlmEngineTest, RequestsUnderWayAreListedInOrder) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.control->step_micros = 5000;  // The first runs for 20 s.
  test.Start();
  EXPECT_TRUE(test.engine->Requests().empty());
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (const char* tenant : {"first", "second", "third"}) {
    Request request = TextRequest("abc");
    request.tenant = tenant;
    sinks.push_back(NewSink());
    ASSERT_TRUE(test.engine->Submit(std::move(request), sinks.back()).ok());
  }
  ASSERT_TRUE(sinks[0]->WaitDeltas(1));
  test.clock.skipped += 7;
  const std::vector<service::RequestInfo> all = test.engine->Requests();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].tenant, "first");
  EXPECT_EQ(all[0].state, service::RequestInfo::State::kRunning);
  EXPECT_EQ(all[2].tenant, "third");
  EXPECT_FALSE(all[2].started());
  EXPECT_LT(all[0].id, all[1].id);
  EXPECT_LT(all[1].id, all[2].id);
  EXPECT_GE(all[2].age_seconds, 7.0);
  for (const service::RequestInfo& each : all) static_cast<void>(test.engine->Cancel(each.id));
  for (const auto& sink : sinks) sink->WaitEnd();
}

TEST(LlmEngineTest, ImpossibleOptionsAreNamed) {
  const auto field_of = [](void (*change)(EngineOptions&)) {
    TestEngine test;
    change(test.options);
    const Status status = ValidateEngineOptions(test.options);
    if (!status.ok()) return status.field();
    LlmEngineConfig config;
    config.options = test.options;
    config.model_context_length = 100;
    config.tokenizer = std::make_shared<ByteTokenizer>();
    config.executor = std::make_unique<EchoExecutor>(test.control);
    config.clock = &test.clock;
    config.random = &test.random;
    const auto engine = LlmEngine::Create(std::move(config));
    return engine.ok() ? "accepted" : engine.status().field();
  };
  EXPECT_EQ(field_of([](EngineOptions& o) { o.scheduler.max_num_seqs = 0; }), "max_num_seqs");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.scheduler.max_num_batched_tokens = 0; }),
            "max_num_batched_tokens");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.queue.max_queued_requests = 0; }),
            "max_queued_requests");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.frontend_threads = 0; }), "frontend_threads");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.max_finished_bytes = -1; }), "max_finished_bytes");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.model.max_model_len = 1; }), "max_model_len");
  EXPECT_EQ(field_of([](EngineOptions&) {}), "accepted");
}

}  // namespace
}  // namespace ropeway::engine
