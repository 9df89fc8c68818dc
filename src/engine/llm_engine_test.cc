#include "engine/llm_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "engine/test_fakes.h"

namespace ropeway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Does = TestSink::OnDeltaDoes;

std::shared_ptr<TestSink> NewSink() { return std::make_shared<TestSink>(); }

Request TextRequest(const std::string& text) {
  Request request;
  request.prompt = text;
  return request;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
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

TEST(LlmEngineTest, AbsentMaxTokensMeansWhatIsLeft) {
  TestEngine test;
  test.options.max_model_len = 40;
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
  EXPECT_EQ(sink->WaitEnd().text, "abcEN");
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
  SeededRandom same(1);
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

TEST(LlmEngineTest, MalformedRequestsAreRefusedByNameOfTheField) {
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
  EXPECT_EQ(field_of([](Request& r) { r.max_tokens = 0; }), "max_tokens");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.temperature = -1; }), "temperature");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.temperature = NAN; }), "temperature");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.top_k = -2; }), "top_k");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.top_p = 0; }), "top_p");
  EXPECT_EQ(field_of([](Request& r) { r.sampling.min_p = 1.5F; }), "min_p");
  EXPECT_EQ(field_of([](Request& r) { r.stop = {"a", ""}; }), "stop");
  EXPECT_EQ(field_of([](Request& r) { r.stop.assign(17, "a"); }), "stop");
  EXPECT_EQ(field_of([](Request& r) { r.logprobs = 21; }), "logprobs");
  EXPECT_EQ(field_of([](Request& r) { r.prompt = std::vector<TokenId>{}; }), "prompt");
  EXPECT_EQ(field_of([](Request& r) { r.prompt = std::vector<ChatMessage>{}; }), "messages");
}

TEST(LlmEngineTest, TheModelIsFoundByNameOrDefault) {
  TestEngine test;
  test.Start();
  for (const char* name : {"", "default", "echo"}) {
    Request request = TextRequest("x");
    request.model = name;
    request.max_tokens = 1;
    EXPECT_TRUE(test.engine->Submit(request, NewSink()).ok()) << name;
  }
  Request request = TextRequest("x");
  request.model = "gpt-9";
  EXPECT_EQ(test.engine->Submit(request, NewSink()).status().code(), StatusCode::kNotFound);
  ASSERT_EQ(test.engine->Models().size(), 1U);
  EXPECT_EQ(test.engine->Models()[0].id, "echo");
  EXPECT_EQ(test.engine->Models()[0].max_model_len, 4096);
}

TEST(LlmEngineTest, WhatCanNeverFitEndsAsAnError) {
  TestEngine test;
  test.options.max_model_len = 32;
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
              HasSubstr("the prompt has 32 tokens, but max_model_len is 32"));
  EXPECT_THAT(error_of(TextRequest(std::string(1 << 20, 'x'))).message(),
              HasSubstr("1048576 bytes"));
  EXPECT_EQ(error_of(TextRequest("")).field(), "prompt");
  Request request = TextRequest("0123456789");
  request.max_tokens = 23;
  const Status status = error_of(request);
  EXPECT_EQ(status.field(), "max_tokens");
  EXPECT_THAT(status.message(),
              HasSubstr("10 tokens + max_tokens 23 = 33, but max_model_len is 32"));
  request.prompt = std::vector<TokenId>{1, 258};
  EXPECT_THAT(error_of(request).message(), HasSubstr("token id 258"));
  request.prompt = std::vector<ChatMessage>{{"user", "hi"}};
  EXPECT_EQ(error_of(request).field(), "messages");
}

TEST(LlmEngineTest, ChatsGoThroughTheTemplate) {
  TestEngine test;
  test.render_chat = [](const std::vector<ChatMessage>& messages) -> StatusOr<std::string> {
    if (messages[0].role == "bad") return InvalidArgument("no such role", "messages");
    return "<" + messages[0].content + ">";
  };
  test.Start();
  Request request;
  request.prompt = std::vector<ChatMessage>{{"user", "hi"}};
  request.max_tokens = 4;
  auto sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  EXPECT_EQ(sink->WaitEnd().text, "<hi>");
  request.prompt = std::vector<ChatMessage>{{"bad", "hi"}};
  sink = NewSink();
  ASSERT_TRUE(test.engine->Submit(request, sink).ok());
  EXPECT_EQ(sink->WaitEnd().error.message(), "no such role");
}

TEST(LlmEngineTest, AFullQueueRefusesAndTakesMoreLater) {
  TestEngine test;
  test.options.max_queued_requests = 3;
  test.control->CloseGate();
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  const auto submit = [&] {
    sinks.push_back(NewSink());
    Request request = TextRequest("abc");
    request.max_tokens = 3;
    const StatusOr<RequestId> id = test.engine->Submit(request, sinks.back());
    if (!id.ok()) sinks.pop_back();
    return id.ok() ? Status() : id.status();
  };
  // No first step ends while the gate is closed, so all of them count as waiting.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(submit().ok());
  for (int i = 0; i < 3; ++i) {
    const Status status = submit();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("max_queued_requests"));
  }
  EXPECT_THAT(test.engine->MetricsText(), HasSubstr("ropeway_num_requests_waiting 3\n"));
  EXPECT_EQ(test.engine->RetryAfterSeconds(), 1);
  EXPECT_TRUE(test.engine->GetHealth().ready);
  test.control->OpenGate();
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().text, "abc");
  EXPECT_TRUE(submit().ok());
  EXPECT_EQ(sinks.back()->WaitEnd().text, "abc");
}

TEST(LlmEngineTest, CancelEndsARunningRequest) {
  TestEngine test;
  test.control->step_micros = 1000;
  test.Start();
  auto sink = NewSink();
  const RequestId id = test.Submit("abc", 4000, sink);
  ASSERT_TRUE(sink->WaitDeltas(3));
  const int steps = test.control->steps;
  test.engine->Cancel(id);
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(seen.finish->usage.completion_tokens, seen.deltas);
  EXPECT_LE(test.control->steps, steps + 100) << "far more than the step in which it came";
  // Its sink is told a moment before it is forgotten.
  ASSERT_TRUE(test.engine->Drain(seconds(20)).ok());
  EXPECT_FALSE(test.engine->TryCancel(id));
}

TEST(LlmEngineTest, CancelEndsAQueuedRequestBeforeItsFirstStep) {
  TestEngine test;
  test.options.max_num_seqs = 1;
  test.Start();
  auto first = NewSink();
  test.Submit("a", 2, first);
  first->WaitEnd();
  test.control->CloseGate();
  auto running = NewSink();
  test.Submit("abc", 3, running);
  auto queued = NewSink();
  const RequestId id = test.Submit("def", 3, queued);
  test.engine->Cancel(id);
  test.control->OpenGate();
  const TestSink::Seen seen = queued->WaitEnd();
  EXPECT_EQ(seen.deltas, 0);
  if (seen.finish) {
    EXPECT_EQ(seen.finish->reason, FinishReason::kCancelled);
  } else {
    EXPECT_EQ(seen.error.code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(running->WaitEnd().text, "abc");
}

TEST(LlmEngineTest, CancelEndsARequestBeforeItsTurnToBeEncoded) {
  TestEngine test;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(NewSink());
    test.Submit(ByteTokenizer::kSlow, 1, slow.back());
  }
  auto sink = NewSink();
  const RequestId id = test.Submit("abc", 1, sink);
  test.engine->Cancel(id);
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.error.code(), StatusCode::kCancelled);
  EXPECT_EQ(slow.back()->Get().ends, 0) << "the cancel waited for the encoding of others";
}

TEST(LlmEngineTest, ASinkThatWantsNoMoreIsACancel) {
  TestEngine test;
  test.Start();
  for (const Does does : {Does::kStop, Does::kThrow}) {
    auto sink = std::make_shared<TestSink>(does, 2);
    test.Submit("abc", 4000, sink);
    const TestSink::Seen seen = sink->WaitEnd();
    EXPECT_EQ(seen.finish->reason, FinishReason::kCancelled);
    EXPECT_EQ(seen.deltas, 3);
    EXPECT_EQ(seen.finish->usage.completion_tokens, 3);
  }
  auto sink = NewSink();
  test.Submit("abc", 3, sink);
  EXPECT_EQ(sink->WaitEnd().text, "abc");
}

TEST(LlmEngineTest, AnExceptionInOneRequestFailsItAlone) {
  TestEngine test;
  test.Start();
  auto poisoned = NewSink();
  auto healthy = NewSink();
  test.Submit(ByteTokenizer::kPoison, 3, poisoned);
  test.Submit("abc", 3, healthy);
  EXPECT_EQ(poisoned->WaitEnd().error.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(healthy->WaitEnd().text, "abc");
}

TEST(LlmEngineTest, RequestsStartInOrderOfSubmitWithSeveralFrontEndThreads) {
  TestEngine test;
  test.options.frontend_threads = 4;
  test.options.max_num_seqs = 1;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  std::vector<uint64_t> ids;
  for (int i = 0; i < 40; ++i) {
    sinks.push_back(NewSink());
    // Every fifth takes far longer to encode than those after it.
    ids.push_back(test.Submit(i % 5 == 0 ? ByteTokenizer::kSlow : "quick", 1, sinks.back()));
  }
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().finish->reason, FinishReason::kLength);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(test.control->FirstSteps(), ids);
}

TEST(LlmEngineTest, NobodyFailsWhenBlocksRunOut) {
  TestEngine test;
  test.options.kv_cache_bytes = EchoExecutor::PoolBytes(8);
  test.options.max_model_len = 128;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 6; ++i) {
    sinks.push_back(NewSink());
    test.Submit("0123456789", 60, sinks.back());
  }
  int preemptions = 0;
  for (const auto& sink : sinks) {
    const TestSink::Seen seen = sink->WaitEnd();
    EXPECT_EQ(seen.text, "012345678901234567890123456789012345678901234567890123456789");
    preemptions += seen.finish->preemptions;
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_THAT(test.engine->MetricsText(),
              HasSubstr("ropeway_num_preemptions_total " + std::to_string(preemptions) + "\n"));
}

TEST(LlmEngineTest, MaxModelLenIsLoweredToThePool) {
  TestEngine test;
  test.options.kv_cache_bytes = EchoExecutor::PoolBytes(3);
  test.Start();
  EXPECT_EQ(test.engine->max_model_len(), 3 * kBlockTokens);
}

TEST(LlmEngineTest, DrainWaitsForWhatRuns) {
  TestEngine test;
  test.control->step_micros = 500;
  test.Start();
  auto sink = NewSink();
  test.Submit("abc", 60, sink);
  EXPECT_TRUE(test.engine->Drain(seconds(20)).ok());
  EXPECT_EQ(sink->Get().ends, 1);
  EXPECT_EQ(sink->Get().finish->reason, FinishReason::kLength);
  EXPECT_EQ(test.engine->Submit(TextRequest("x"), NewSink()).status().code(),
            StatusCode::kUnavailable);
  EXPECT_FALSE(test.engine->GetHealth().ready);
  EXPECT_TRUE(test.engine->GetHealth().live);
}

TEST(LlmEngineTest, DrainCancelsAtItsDeadline) {
  TestEngine test;
  test.control->step_micros = 1000;
  test.Start();
  auto sink = NewSink();
  test.Submit("abc", 4000, sink);
  ASSERT_TRUE(sink->WaitDeltas(1));
  const Status status = test.engine->Drain(milliseconds(20));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(sink->Get().ends, 1);
  EXPECT_EQ(sink->Get().finish->reason, FinishReason::kCancelled);
}

TEST(LlmEngineTest, TheDestructorEndsEveryRequest) {
  TestEngine test;
  test.control->step_micros = 1000;
  test.options.max_num_seqs = 2;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 10; ++i) {
    sinks.push_back(NewSink());
    test.Submit(i % 3 == 0 ? ByteTokenizer::kSlow : "abc", 4000, sinks.back());
  }
  ASSERT_TRUE(sinks[0]->WaitDeltas(1));
  test.engine.reset();
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->Get().ends, 1);
    EXPECT_EQ(sink->Get().violation, "");
    EXPECT_EQ(sink.use_count(), 1) << "the sink is still held";
  }
}

TEST(LlmEngineTest, EverySinkHasOneEndUnderRandomCancels) {
  TestEngine test;
  test.options.frontend_threads = 2;
  test.options.max_num_seqs = 4;
  test.options.kv_cache_bytes = EchoExecutor::PoolBytes(12);
  test.options.max_model_len = 128;
  test.Start();
  constexpr int kThreads = 4;
  constexpr int kRequests = 60;
  std::vector<std::thread> clients;
  std::vector<std::vector<std::shared_ptr<TestSink>>> sinks(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    clients.emplace_back([&test, &mine = sinks[t], t] {
      SeededRandom random(t);
      std::vector<RequestId> ids;
      for (int i = 0; i < kRequests; ++i) {
        mine.push_back(random.Chance(0.2) ? std::make_shared<TestSink>(
                                                Does::kStop, static_cast<int>(random.Below(20)))
                                          : NewSink());
        Request request = TextRequest("some text to echo");
        request.max_tokens = static_cast<int32_t>(random.Between(1, 60));
        if (random.Chance(0.3)) request.stop = {"text"};
        const StatusOr<RequestId> id = test.engine->Submit(request, mine.back());
        EXPECT_TRUE(id.ok());
        ids.push_back(*id);
        if (random.Chance(0.3)) test.engine->Cancel(ids[random.Below(ids.size())]);
        if (random.Chance(0.1)) std::this_thread::sleep_for(milliseconds(1));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(test.engine->Drain(seconds(20)).ok());
  test.engine.reset();
  std::map<FinishReason, int> reasons;
  for (const auto& mine : sinks) {
    for (const auto& sink : mine) {
      const TestSink::Seen seen = sink->Get();
      EXPECT_EQ(seen.ends, 1);
      EXPECT_EQ(seen.violation, "");
      if (seen.finish) {
        ++reasons[seen.finish->reason];
        EXPECT_EQ(seen.finish->usage.completion_tokens, static_cast<int>(seen.tokens.size()));
      }
    }
  }
  EXPECT_GT(reasons[FinishReason::kLength], 0);
  EXPECT_GT(reasons[FinishReason::kStop], 0);
  EXPECT_GT(reasons[FinishReason::kCancelled], 0);
}

TEST(LlmEngineTest, AFailedDeviceFailsAllAndRefusesMore) {
  for (const bool throws : {false, true}) {
    TestEngine test;
    (throws ? test.control->throw_at_step : test.control->fail_at_step) = 5;
    test.options.max_num_seqs = 2;
    test.Start();
    std::vector<std::shared_ptr<TestSink>> sinks;
    test.control->CloseGate();
    for (int i = 0; i < 5; ++i) {
      sinks.push_back(NewSink());
      test.Submit("abc", 100, sinks.back());
    }
    test.control->OpenGate();
    for (const auto& sink : sinks) {
      const TestSink::Seen seen = sink->WaitEnd();
      EXPECT_FALSE(seen.error.ok());
      EXPECT_THAT(seen.error.message(), HasSubstr(throws ? "out of luck" : "fell off the bus"));
    }
    EXPECT_EQ(test.engine->Submit(TextRequest("x"), NewSink()).status().code(),
              StatusCode::kUnavailable);
    const Health health = test.engine->GetHealth();
    EXPECT_FALSE(health.live);
    EXPECT_FALSE(health.ready);
    EXPECT_THAT(health.reason, HasSubstr(throws ? "out of luck" : "fell off the bus"));
    EXPECT_TRUE(test.engine->Drain(seconds(20)).ok());
  }
}

TEST(LlmEngineTest, AnIdleEngineUsesNoCpu) {
  TestEngine test;
  test.Start();
  auto sink = NewSink();
  test.Submit("abc", 3, sink);
  sink->WaitEnd();
  const double before = CpuSeconds();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LT(CpuSeconds() - before, 0.03);
}

TEST(LlmEngineTest, SubmitReturnsAtOnceHoweverLongThePrompt) {
  TestEngine test;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    sinks.push_back(NewSink());
    test.Submit(ByteTokenizer::kSlow, 1, sinks.back());
  }
  // Encoding them takes 200 ms.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(100));
  for (const auto& sink : sinks) sink->WaitEnd();
}

TEST(LlmEngineTest, MetricsTellWhatHappened) {
  TestEngine test;
  test.Start();
  auto sink = NewSink();
  test.Submit("abcd", 3, sink);
  sink->WaitEnd();
  auto refused = NewSink();
  test.Submit("", 3, refused);
  refused->WaitEnd();
  ASSERT_TRUE(test.engine->Drain(seconds(20)).ok());
  const std::string text = test.engine->MetricsText();
  for (const char* line : {"ropeway_time_to_first_token_seconds_count 1\n",
                           "ropeway_inter_token_latency_seconds_count 2\n",
                           "ropeway_request_queue_time_seconds_count 1\n",
                           "ropeway_e2e_request_latency_seconds_count 1\n",
                           "ropeway_num_requests_running 0\n", "ropeway_num_requests_waiting 0\n",
                           "ropeway_kv_cache_usage_ratio 0\n", "ropeway_num_preemptions_total 0\n",
                           "ropeway_prompt_tokens_total 4\n", "ropeway_generation_tokens_total 3\n",
                           "ropeway_request_success_total{finished_reason=\"length\"} 1\n",
                           "ropeway_request_success_total{finished_reason=\"stop\"} 0\n",
                           "ropeway_request_refused_total 1\n", "ropeway_step_rows_sum 6\n",
                           "ropeway_step_rows_count 3\n", "ropeway_step_time_seconds_count 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(LlmEngineTest, TokenizeAndDetokenize) {
  TestEngine test;
  test.Start();
  EXPECT_EQ(*test.engine->Tokenize("ab", true), (std::vector<TokenId>{'a', 'b'}));
  EXPECT_EQ(*test.engine->Detokenize({'a', ByteTokenizer::kEnd}), "a<end>");
  EXPECT_EQ(test.engine->Detokenize({300}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(test.engine->Detokenize({-1}).status().code(), StatusCode::kInvalidArgument);
}

TEST(LlmEngineTest, ImpossibleOptionsAreNamed) {
  const auto field_of = [](void (*change)(EngineOptions&)) {
    TestEngine test;
    change(test.options);
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
  EXPECT_EQ(field_of([](EngineOptions& o) { o.max_num_seqs = 0; }), "max_num_seqs");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.max_num_batched_tokens = 0; }),
            "max_num_batched_tokens");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.max_queued_requests = 0; }), "max_queued_requests");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.frontend_threads = 0; }), "frontend_threads");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.max_model_len = 1; }), "max_model_len");
  EXPECT_EQ(field_of([](EngineOptions&) {}), "accepted");
}

}  // namespace
}  // namespace ropeway
