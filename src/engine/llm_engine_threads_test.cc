// LlmEngine under load, cancels, failures and at its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Does = TestSink::OnDeltaDoes;

TEST(LlmEngineThreadsTest, AFullQueueRefusesAndTakesMoreLater) {
  TestEngine test;
  test.options.queue.max_queued_requests = 3;
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
  EXPECT_EQ(test.engine->RetryAfterSeconds(""), 1);
  EXPECT_TRUE(test.engine->GetHealth().ready);
  test.control->OpenGate();
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().text, "abc");
  EXPECT_TRUE(submit().ok());
  EXPECT_EQ(sinks.back()->WaitEnd().text, "abc");
}

TEST(LlmEngineThreadsTest, TheTextOfAllRequestsIsBounded) {
  TestEngine test;
  test.max_request_bytes = 20000;  // One tenant gets half.
  test.options.scheduler.max_num_seqs = 2;
  test.control->CloseGate();
  test.Start();
  const std::string text(3500, 'x');
  std::vector<std::shared_ptr<TestSink>> sinks = {NewSink(), NewSink()};
  for (const auto& sink : sinks) test.Submit(text, 2, sink);
  Request third = TextRequest(text);
  third.max_tokens = 2;
  const Status rejected = test.engine->Submit(third, NewSink()).status();
  EXPECT_EQ(rejected.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(rejected.message(), HasSubstr("bytes"));
  sinks.push_back(NewSink());
  test.Submit("a small one still has room", 2, sinks.back());
  test.control->OpenGate();
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().finish->reason, FinishReason::kLength);
  EXPECT_TRUE(test.engine->Submit(third, NewSink()).ok())
      << "what ended gave its bytes back before its sink was told";
}

TEST(LlmEngineThreadsTest, TheTextsOfOneTenantLeaveRoomForAnothers) {
  TestEngine test;
  test.max_request_bytes = 20000;
  test.control->CloseGate();
  test.Start();
  const auto submit = [&](const std::string& tenant) {
    Request request = TextRequest(std::string(900, 'x'));
    request.tenant = tenant;
    request.max_tokens = 1;
    return test.engine->Submit(request, NewSink()).status();
  };
  int taken = 0;
  while (submit("greedy").ok()) ++taken;
  EXPECT_EQ(taken, 11);
  EXPECT_TRUE(submit("modest").ok());
  EXPECT_EQ(submit("greedy").code(), StatusCode::kResourceExhausted);
  test.control->OpenGate();
}

TEST(LlmEngineThreadsTest, TheTextOfACancelledRequestCountsUntilThePoolLetsItGo) {
  TestEngine test;
  test.max_request_bytes = 20000;  // One tenant gets half.
  test.control->encoding_gate.Close();
  test.Start();
  auto held = NewSink();
  test.Submit(ByteTokenizer::kHeld, 1, held);
  const Request request = TextRequest(std::string(3500, 'x'));
  for (int i = 0; i < 2; ++i) {
    auto sink = NewSink();
    const StatusOr<RequestId> id = test.engine->Submit(request, sink);
    ASSERT_TRUE(id.ok());
    static_cast<void>(test.engine->Cancel(*id));
    EXPECT_EQ(sink->WaitEnd().error.code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(test.engine->Submit(request, NewSink()).status().code(), StatusCode::kResourceExhausted)
      << "the pool still holds the text of both";
  test.control->encoding_gate.Open();
  EXPECT_TRUE(Eventually([&] { return test.engine->Submit(request, NewSink()).ok(); }));
}

// Submits a request when it is told of an error.
class ResubmittingSink final : public Sink {
 public:
  ResubmittingSink(LlmEngine* engine, Request request)
      : engine_(engine), request_(std::move(request)) {}

  void OnAdmitted(RequestId, const Admission&) override {}
  bool OnDelta(RequestId, Delta) override { return true; }
  void OnEnd(RequestId, const Outcome& outcome) override {
    submitted_.set_value(outcome.status.ok() ? Status()
                                             : engine_->Submit(request_, NewSink()).status());
  }
  bool told() const {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  Status Submitted() { return future_.get(); }

 private:
  LlmEngine* const engine_;
  const Request request_;
  std::promise<Status> submitted_;
  std::future<Status> future_ = submitted_.get_future();
};

TEST(LlmEngineThreadsTest, ARejectedRequestGivesItsBytesBackBeforeItsSinkIsTold) {
  TestEngine test;
  test.max_request_bytes = 20000;  // One tenant gets half.
  test.options.queue.max_queued_tokens = 4000;
  test.options.scheduler.max_num_seqs = 1;
  test.control->CloseGate();
  test.Start();
  test.Submit("runs", 4000, NewSink());
  const Request request = TextRequest(std::string(3500, 'x'));
  ASSERT_TRUE(test.engine->Submit(request, NewSink()).ok()) << "waits";
  auto rejected = std::make_shared<ResubmittingSink>(test.engine.get(), request);
  ASSERT_TRUE(test.engine->Submit(request, rejected).ok());
  ASSERT_TRUE(Eventually([&] {
    test.control->step_gate.Admit(1);
    return rejected->told();
  }));
  EXPECT_TRUE(rejected->Submitted().ok()) << "three texts are beyond the bound, two are not";
  test.control->OpenGate();
}

TEST(LlmEngineThreadsTest, ARequestLargerThanTheBoundIsTakenAlone) {
  TestEngine test;
  test.max_request_bytes = 100;
  test.Start();
  auto sink = NewSink();
  test.Submit(std::string(200, 'x'), 2, sink);
  EXPECT_EQ(sink->WaitEnd().text, "xx");
}

TEST(LlmEngineThreadsTest, CancelEndsARunningRequest) {
  TestEngine test;
  test.control->CloseGate();
  test.control->step_gate.Admit(3);
  test.Start();
  auto sink = NewSink();
  const RequestId id = test.Submit("abc", 4000, sink);
  ASSERT_TRUE(sink->WaitDeltas(3));
  ASSERT_TRUE(Eventually([&] { return test.control->step_gate.waiting() == 1; }));
  static_cast<void>(test.engine->Cancel(id));
  test.control->OpenGate();
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(seen.finish->usage.completion_tokens, seen.deltas);
  EXPECT_EQ(test.control->steps, 4) << "more than the step in which it came";
  EXPECT_EQ(test.engine->Cancel(id).code(), StatusCode::kNotFound);
}

// Looks for the request when it is told the end.
class CancellingSink final : public Sink {
 public:
  explicit CancellingSink(LlmEngine* engine) : engine_(engine) {}
  void OnAdmitted(RequestId, const Admission&) override {}
  bool OnDelta(RequestId, Delta) override { return true; }
  void OnEnd(RequestId id, const Outcome&) override { found_.set_value(engine_->Cancel(id).ok()); }
  bool found() { return found_.get_future().get(); }

 private:
  LlmEngine* const engine_;
  std::promise<bool> found_;
};

TEST(LlmEngineThreadsTest, NothingIsLeftToCancelOnceTheEndIsTold) {
  TestEngine test;
  test.Start();
  const auto finished = std::make_shared<CancellingSink>(test.engine.get());
  test.Submit("abc", 2, finished);
  EXPECT_FALSE(finished->found());
  const auto rejected = std::make_shared<CancellingSink>(test.engine.get());
  test.Submit(std::string(5000, 'x'), 2, rejected);
  EXPECT_FALSE(rejected->found());
}

TEST(LlmEngineThreadsTest, CancelEndsAQueuedRequestBeforeItsFirstStep) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.Start();
  auto first = NewSink();
  test.Submit("a", 2, first);
  first->WaitEnd();
  test.control->CloseGate();
  auto running = NewSink();
  test.Submit("abc", 3, running);
  auto queued = NewSink();
  const RequestId id = test.Submit("def", 3, queued);
  static_cast<void>(test.engine->Cancel(id));
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

TEST(LlmEngineThreadsTest, CancelEndsARequestBeforeItsTurnToBeEncoded) {
  TestEngine test;
  test.control->encoding_gate.Close();
  test.Start();
  auto held = NewSink();
  test.Submit(ByteTokenizer::kHeld, 1, held);
  auto sink = NewSink();
  const RequestId id = test.Submit("abc", 1, sink);
  static_cast<void>(test.engine->Cancel(id));
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.error.code(), StatusCode::kCancelled);
  EXPECT_EQ(held->Get().ends, 0) << "the cancel waited for the encoding of others";
  test.control->encoding_gate.Open();
  EXPECT_EQ(held->WaitEnd().finish->reason, FinishReason::kLength);
}

TEST(LlmEngineThreadsTest, ASinkThatWantsNoMoreIsACancel) {
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

TEST(LlmEngineThreadsTest, AnExceptionInOneRequestFailsItAlone) {
  TestEngine test;
  test.Start();
  auto poisoned = NewSink();
  auto healthy = NewSink();
  test.Submit(ByteTokenizer::kPoison, 3, poisoned);
  test.Submit("abc", 3, healthy);
  EXPECT_EQ(poisoned->WaitEnd().error.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(healthy->WaitEnd().text, "abc");
}

// Those that wait, whichever was encoded first.
TEST(LlmEngineThreadsTest, RequestsStartInOrderOfSubmitWithSeveralFrontEndThreads) {
  TestEngine test;
  test.options.frontend_threads = 4;
  test.options.scheduler.max_num_seqs = 1;
  test.options.queue.policy = "fcfs";
  test.control->CloseGate();
  test.Start();
  // It has the only slot until all others have come, and is cancelled then.
  auto running = NewSink();
  std::vector<uint64_t> ids = {test.Submit("running", 4000, running)};
  ASSERT_TRUE(Eventually([&] { return test.control->step_gate.waiting() == 1; }));
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 40; ++i) {
    sinks.push_back(NewSink());
    // Every fifth takes far longer to encode than those after it.
    ids.push_back(test.Submit(i % 5 == 0 ? ByteTokenizer::kSlow : "quick", 1, sinks.back()));
  }
  ASSERT_TRUE(Eventually([&] {
    const std::vector<service::RequestInfo> all = test.engine->Requests();
    return std::none_of(all.begin(), all.end(), [](const service::RequestInfo& info) {
      return info.state == service::RequestInfo::State::kEncoding;
    });
  }));
  // The engine takes them between the steps of the first one, which has 4 seconds for it.
  test.control->step_micros = 1000;
  test.control->OpenGate();
  ASSERT_TRUE(Eventually([&] {
    return std::ranges::all_of(sinks, [](const auto& sink) { return sink->Get().admitted; });
  }));
  test.control->step_micros = 0;
  EXPECT_FALSE(running->Get().finish.has_value()) << "it was to outlast them";
  EXPECT_TRUE(test.engine->Cancel(ids[0]).ok());
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().finish->reason, FinishReason::kLength);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(test.control->FirstSteps(), ids);
}

TEST(LlmEngineThreadsTest, NobodyFailsWhenBlocksRunOut) {
  TestEngine test;
  test.options.cache.kv_bytes = EchoExecutor::PoolBytes(8);
  test.options.model.max_model_len = 128;
  test.control->CloseGate();
  test.control->encoding_gate.Close();
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  const auto prompt = [](size_t i) { return std::to_string(i) + "123456789"; };
  for (size_t i = 0; i < 6; ++i) {
    sinks.push_back(NewSink());
    test.Submit(prompt(i), 60, sinks.back());
  }
  // All six are encoded once the next one's turn has come, and 8 blocks do not hold them together.
  auto last = NewSink();
  test.Submit(ByteTokenizer::kHeld, 1, last);
  ASSERT_TRUE(Eventually([&] { return test.control->encoding_gate.waiting() == 1; }));
  test.control->OpenGate();
  int preemptions = 0;
  for (size_t i = 0; i < 6; ++i) {
    const TestSink::Seen seen = sinks[i]->WaitEnd();
    std::string expected;
    for (int k = 0; k < 6; ++k) expected += prompt(i);
    EXPECT_EQ(seen.text, expected);
    preemptions += seen.finish->preemptions;
  }
  EXPECT_GT(preemptions, 0);
  test.control->encoding_gate.Open();
  EXPECT_EQ(last->WaitEnd().text, "H");
  EXPECT_THAT(test.engine->MetricsText(),
              HasSubstr("ropeway_num_preemptions_total{reason=\"memory\"} " +
                        std::to_string(preemptions) + "\n"));
}

TEST(LlmEngineThreadsTest, MaxModelLenIsLoweredToThePool) {
  TestEngine test;
  test.options.cache.kv_bytes = EchoExecutor::PoolBytes(3);
  test.Start();
  EXPECT_EQ(test.engine->max_model_len(), 3 * base::kBlockTokens);
}

TEST(LlmEngineThreadsTest, DrainWaitsForWhatRuns) {
  TestEngine test;
  test.control->step_micros = 500;
  test.Start();
  auto sink = NewSink();
  test.Submit("abc", 60, sink);
  EXPECT_TRUE(test.engine->Drain(seconds(60)).ok());
  EXPECT_EQ(sink->Get().ends, 1);
  EXPECT_EQ(sink->Get().finish->reason, FinishReason::kLength);
  EXPECT_EQ(test.engine->Submit(TextRequest("x"), NewSink()).status().code(),
            StatusCode::kUnavailable);
  EXPECT_FALSE(test.engine->GetHealth().ready);
  EXPECT_TRUE(test.engine->GetHealth().live);
}

TEST(LlmEngineThreadsTest, DrainCancelsAtItsDeadline) {
  TestEngine test;
  test.control->step_micros = 5000;
  test.Start();
  auto sink = NewSink();
  test.Submit("abc", 4000, sink);
  ASSERT_TRUE(sink->WaitDeltas(1));
  const Status status = test.engine->Drain(milliseconds(20));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(sink->Get().ends, 1);
  EXPECT_EQ(sink->Get().finish->reason, FinishReason::kCancelled);
}

TEST(LlmEngineThreadsTest, DrainSaysHowManyItCancelled) {
  TestEngine test;
  test.control->step_micros = 1000;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 30; ++i) {
    sinks.push_back(NewSink());
    test.Submit(ByteTokenizer::kSlow, 4000, sinks.back());
  }
  EXPECT_THAT(test.engine->Drain(milliseconds(0)).message(), HasSubstr("30 requests"));
  for (const auto& sink : sinks) EXPECT_EQ(sink->Get().ends, 1);
}

// So that the server can tell each open stream before it closes it.
TEST(LlmEngineThreadsTest, DrainEndsWhatRunsWaitsAndIsEncodedAtItsDeadline) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 2;
  test.options.cache.kv_bytes = EchoExecutor::PoolBytes(8);
  test.options.model.max_model_len = 128;
  test.control->step_micros = 5000;  // 10 s in all.
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 40; ++i) {
    sinks.push_back(NewSink());
    test.Submit(i < 20 ? "a text of some length" : ByteTokenizer::kSlow, 100, sinks.back());
  }
  ASSERT_TRUE(sinks[0]->WaitDeltas(20));
  EXPECT_EQ(test.engine->Drain(milliseconds(1)).code(), StatusCode::kDeadlineExceeded);
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->Get().ends, 1);
    EXPECT_EQ(sink->Get().violation, "");
  }
  EXPECT_TRUE(test.engine->Requests().empty());
}

TEST(LlmEngineThreadsTest, TheDestructorEndsEveryRequest) {
  TestEngine test;
  test.control->step_micros = 1000;
  test.options.scheduler.max_num_seqs = 2;
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

TEST(LlmEngineThreadsTest, EverySinkHasOneEndUnderRandomCancels) {
  TestEngine test;
  test.options.frontend_threads = 2;
  test.options.scheduler.max_num_seqs = 4;
  test.options.cache.kv_bytes = EchoExecutor::PoolBytes(12);
  test.options.model.max_model_len = 128;
  test.Start();
  constexpr int kThreads = 4;
  constexpr int kRequests = 60;
  std::vector<std::thread> clients;
  std::vector<std::vector<std::shared_ptr<TestSink>>> sinks(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    clients.emplace_back([&test, &mine = sinks[t], t] {
      base::SeededRandom random(t);
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
        if (random.Chance(0.3)) {
          static_cast<void>(test.engine->Cancel(ids[random.Below(ids.size())]));
        }
        if (random.Chance(0.1)) std::this_thread::sleep_for(milliseconds(1));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(test.engine->Drain(seconds(60)).ok());
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

TEST(LlmEngineThreadsTest, AFailedDeviceFailsAllAndRefusesMore) {
  for (const bool throws : {false, true}) {
    TestEngine test;
    (throws ? test.control->throw_at_step : test.control->fail_at_step) = 5;
    test.options.scheduler.max_num_seqs = 2;
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
    const service::Health health = test.engine->GetHealth();
    EXPECT_FALSE(health.live);
    EXPECT_FALSE(health.ready);
    EXPECT_THAT(health.reason, HasSubstr(throws ? "out of luck" : "fell off the bus"));
    EXPECT_TRUE(test.engine->Drain(seconds(60)).ok());
  }
}

TEST(LlmEngineThreadsTest, AStepThatDoesNotEndIsSeen) {
  TestEngine test;
  test.watchdog_period = milliseconds(2);
  test.Start();
  auto sink = NewSink();
  test.Submit("abc", 3, sink);
  sink->WaitEnd();
  // The sink's end comes out of the step, a moment before the loop says that it is idle.
  ASSERT_TRUE(Eventually([&] {
    return test.engine->MetricsText().find("ropeway_num_requests_running 0\n") != std::string::npos;
  }));
  test.clock.skipped += 100;
  EXPECT_TRUE(test.engine->GetHealth().live) << "an idle engine is no stalled one";
  test.control->CloseGate();
  sink = NewSink();
  test.Submit("abc", 3, sink);
  // The step begins at some moment after Submit; from then on time is skipped until it is seen.
  EXPECT_TRUE(Eventually([&] {
    test.clock.skipped += 10;
    return !test.engine->GetHealth().live;
  }));
  EXPECT_FALSE(test.engine->GetHealth().ready);
  EXPECT_THAT(test.engine->GetHealth().reason, HasSubstr("no step made progress for"));
  test.control->OpenGate();
  EXPECT_EQ(sink->WaitEnd().text, "abc");
  EXPECT_TRUE(test.engine->Drain(seconds(60)).ok());
  EXPECT_TRUE(test.engine->GetHealth().live);
}

TEST(LlmEngineThreadsTest, AnIdleEngineUsesNoCpu) {
  TestEngine test;
  test.Start();
  auto sink = NewSink();
  test.Submit("abc", 3, sink);
  sink->WaitEnd();
  EXPECT_LT(IdleCpuShare(), 0.1);
}

TEST(LlmEngineThreadsTest, SubmitReturnsAtOnceHoweverLongThePrompt) {
  TestEngine test;
  test.control->encoding_gate.Close();
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 10; ++i) {
    sinks.push_back(NewSink());
    test.Submit(ByteTokenizer::kHeld, 1, sinks.back());
  }
  for (const auto& sink : sinks) EXPECT_FALSE(sink->Get().admitted);
  test.control->encoding_gate.Open();
  for (const auto& sink : sinks) sink->WaitEnd();
}

}  // namespace
}  // namespace ropeway::engine
