// One failed allocation, wherever it comes, costs at most the request that it was for.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/llm_engine.h"
#include "engine/test_failing_new.h"
#include "engine/test_fakes.h"
#include "model/test_gguf_writer.h"
#include "ropeway/engine.h"

namespace ropeway::engine {
namespace {

using std::chrono::seconds;

constexpr int kMostAllocations = 20000;

// Requests of all kinds, and the text of each.
struct Case {
  Request request;
  std::string text;
};

std::vector<Case> Cases() {
  std::vector<Case> cases(4);
  cases[0].request.prompt = "a text of some length, longer than a small string END and more";
  cases[0].request.stop = {"never to be seen in this text", "END"};
  cases[0].request.max_tokens = 60;
  cases[0].text = "a text of some length, longer than a small string ";
  cases[1].request.prompt = Chat{.messages = {{"user", "what is a ropeway, and what not?"}}};
  cases[1].request.max_tokens = 6;
  cases[1].request.timeout = std::chrono::hours(1);
  cases[1].text = "<what ";
  cases[2].request.prompt = std::vector<TokenId>{'a', 'b', 'c', ByteTokenizer::kEnd};
  cases[2].request.max_tokens = 20;
  cases[2].request.logprobs = 3;
  cases[2].request.prompt_logprobs = 2;
  cases[2].text = "abc";
  cases[3].request.prompt = std::string(40, 'x');
  cases[3].request.max_tokens = 0;
  cases[3].request.prompt_logprobs = 0;
  return cases;
}

StatusOr<tokenizer::RenderedChat> RenderInBrackets(const Chat& chat, const StoppedFn&) {
  return tokenizer::RenderedChat{"<" + chat.messages[0].content + ">"};
}

// Encodes to the end.
Status EncodeToTheEnd(StatusOr<std::unique_ptr<service::Tokenization>> tokenization) {
  if (!tokenization.ok()) return tokenization.status();
  while (true) {
    const StatusOr<bool> done = (*tokenization)->Step();
    if (!done.ok() || *done) return done.status();
  }
}

// What became of one round; a request counts as failed where Submit or its end says so.
struct Round {
  bool fired = false;
  int failed = 0;
};

Round RunOnce(TestEngine* test, int64_t n, int64_t count) {
  std::vector<Case> cases = Cases();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (size_t i = 0; i < cases.size(); ++i) sinks.push_back(std::make_shared<TestSink>());
  std::vector<StatusOr<RequestId>> ids(cases.size(), RequestId{0});
  Round round;
  {
    const FailingNew failing(n, count);
    for (size_t i = 0; i < cases.size(); ++i) {
      ids[i] = test->engine->Submit(std::move(cases[i].request), sinks[i]);
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      if (!ids[i].ok()) continue;
      EXPECT_TRUE(sinks[i]->WaitForEnd()) << "no end";
    }
    round.fired = failing.fired();
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const TestSink::Seen seen = sinks[i]->Get();
    EXPECT_EQ(seen.violation, "");
    EXPECT_EQ(seen.ends, ids[i].ok() ? 1 : 0);
    if (ids[i].ok() && seen.finish) {
      EXPECT_EQ(seen.text, cases[i].text);
      EXPECT_NE(seen.finish->reason, FinishReason::kCancelled);
      continue;
    }
    ++round.failed;
    const Status& status = ids[i].ok() ? seen.error : ids[i].status();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
  }
  return round;
}

// All slots and blocks are released. The loop publishes that a moment after the last end.
void ExpectIdle(const TestEngine& test) {
  const auto idle = [&test] {
    const std::string metrics = test.engine->MetricsText();
    return test.engine->Requests().empty() &&
           metrics.find("ropeway_num_requests_waiting 0\n") != std::string::npos &&
           metrics.find("ropeway_num_requests_running 0\n") != std::string::npos &&
           metrics.find("ropeway_kv_cache_usage_ratio 0\n") != std::string::npos;
  };
  EXPECT_TRUE(Eventually(idle)) << test.engine->MetricsText();
}

class LlmEngineFailureTest : public testing::TestWithParam<int> {};

TEST_P(LlmEngineFailureTest, AFailedAllocationCostsAtMostItsRequest) {
  const int count = GetParam();  // Allocations in a row that fail.
  TestEngine test;
  test.check_integrity = true;
  test.options.cache.kv_bytes = EchoExecutor::PoolBytes(300);
  test.render_chat = RenderInBrackets;
  test.Start();
  int quiet = 0;
  int failed = 0;
  int64_t n = 1;
  for (; n < kMostAllocations && quiet < 5; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    const Round round = RunOnce(&test, n, count);
    EXPECT_LE(round.failed, count);
    failed += round.failed;
    quiet = round.fired ? 0 : quiet + 1;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(n, 100) << "it fails no allocation";
  EXPECT_GT(failed, 50);
  EXPECT_LT(n, kMostAllocations);
  ExpectIdle(test);
  EXPECT_TRUE(test.engine->GetHealth().ready);
  EXPECT_EQ(RunOnce(&test, kMostAllocations, 1).failed, 0) << "it serves on";
  ExpectIdle(test);
}

INSTANTIATE_TEST_SUITE_P(InARow, LlmEngineFailureTest, testing::Values(1, 3, 8));

// Where nothing can be had at all, a line is lost and nothing else.
TEST(LlmEngineLogTest, ALineThatFindsNoMemoryEndsNothing) {
  const std::string text(5000, 'x');
  for (int64_t count = 1; count < 40; ++count) {
    const FailingNew failing(1, count);
    base::TryLog(spdlog::level::warn, "{}", text);
    base::TryLog(spdlog::level::warn, "{}", "short");
  }
}

// What is asked of the tokenizer fails with a status, too: no exception leaves the backend.
TEST(LlmEngineQuestionsTest, AFailedAllocationIsAStatus) {
  TestEngine test;
  test.render_chat = RenderInBrackets;
  test.Start();
  const std::string text = "a text of some length, longer than a small string";
  const std::vector<TokenId> ids(text.begin(), text.end());
  const Chat chat{.messages = {{"user", text}}};
  int failed = 0;
  for (int64_t n = 1; n < 20; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    Status statuses[3];
    {
      std::string taken = text;
      const FailingNew failing(n);
      statuses[0] = EncodeToTheEnd(test.engine->Tokenize(std::move(taken), true));
    }
    {
      Chat taken = chat;
      const FailingNew failing(n);
      statuses[1] = EncodeToTheEnd(test.engine->TokenizeChat(std::move(taken), false));
    }
    {
      const FailingNew failing(n);
      statuses[2] = test.engine->Detokenize(ids).status();
    }
    for (const Status& status : statuses) {
      if (status.ok()) continue;
      ++failed;
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
    }
  }
  EXPECT_GE(failed, 3);
  EXPECT_EQ(*test.engine->Detokenize(ids), text);
}

// A stopping engine short of memory still gives every request its one end.
TEST(LlmEngineStopTest, AFailedAllocationLosesNoEnd) {
  int quiet = 0;
  int64_t n = 1;
  for (; n < kMostAllocations && quiet < 5; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    TestEngine test;
    test.check_integrity = true;
    test.control->step_micros = 100;
    test.Start();
    std::vector<std::shared_ptr<TestSink>> sinks;
    for (int i = 0; i < 3; ++i) {
      sinks.push_back(std::make_shared<TestSink>());
      test.Submit("a text of some length", 3000, sinks.back());
    }
    EXPECT_TRUE(sinks[0]->WaitDeltas(2));
    {
      const FailingNew failing(n, 3);
      test.engine.reset();
      quiet = failing.fired() ? 0 : quiet + 1;
    }
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink->Get().ends, 1);
      EXPECT_EQ(sink->Get().violation, "");
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(n, 10) << "it fails no allocation";
}

// While a lost engine finds no memory, others still get at its requests.
TEST(LlmEngineLostTest, WaitsForMemoryWithoutALock) {
  int64_t n = 1;
  for (bool fired = true; fired && n < 300; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    TestEngine test;
    test.control->fail_at_step = 2;
    test.control->CloseGate();
    test.control->step_gate.Admit(1);
    test.Start();
    std::vector<std::shared_ptr<TestSink>> sinks;
    for (int i = 0; i < 3; ++i) {
      sinks.push_back(std::make_shared<TestSink>());
      test.Submit("a text of some length", 3000, sinks.back());
    }
    ASSERT_TRUE(sinks[0]->WaitDeltas(1));
    ASSERT_TRUE(Eventually([&] { return test.control->step_gate.waiting() == 1; }));
    std::promise<void> asked;
    std::thread asks;
    {
      const NeverFailingNew calm;
      const FailingNew failing(n, kMostAllocations);
      test.control->OpenGate();
      const auto ended = [&] {
        return std::all_of(sinks.begin(), sinks.end(),
                           [](const auto& sink) { return sink->HasEnded(); });
      };
      while (!failing.fired() && !ended()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      fired = failing.fired();
      std::this_thread::sleep_for(std::chrono::milliseconds(fired ? 1 : 0));
      asks = std::thread([&] {
        const NeverFailingNew calm_too;
        static_cast<void>(test.engine->Cancel(1000));
        asked.set_value();
      });
      EXPECT_EQ(asked.get_future().wait_for(seconds(10)), std::future_status::ready);
    }
    asks.join();
    for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().ends, 1);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(n, 5) << "it fails no allocation";
  EXPECT_LT(n, 300);
}

// The same through the public API and the real executor.
TEST(EngineFailureTest, AFailedAllocationCostsAtMostItsRequest) {
  const model::TempFile file{model::TinyLlama().Bytes()};
  EngineOptions options;
  options.model.path = file.path();
  options.threads = 1;
  options.cache.kv_bytes = 1 << 20;
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok());
  const auto make = [](int k) {
    Request request;
    request.prompt = "prompt number " + std::to_string(k) + " of two, longer than small";
    request.max_tokens = 5;
    request.sampling.seed = static_cast<uint64_t>(k);
    request.ignore_eos = true;
    request.logprobs = 1;
    request.prompt_logprobs = 1;
    return request;
  };
  const std::string expected[] = {(*engine)->Submit(make(0))->Wait()->text,
                                  (*engine)->Submit(make(1))->Wait()->text};
  int quiet = 0;
  int failures = 0;
  for (int64_t n = 1; n < kMostAllocations && quiet < 5; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    Request requests[] = {make(0), make(1)};
    StatusOr<RequestHandle> handles[] = {RequestHandle(), RequestHandle()};
    std::optional<FailingNew> failing(n);
    for (int k : {0, 1}) handles[k] = (*engine)->Submit(std::move(requests[k]));
    {
      const NeverFailingNew calm;
      for (int k : {0, 1}) {
        if (!handles[k].ok()) continue;
        EXPECT_TRUE(handles[k]->Wait(seconds(60)).ok()) << "no end";
      }
    }
    quiet = failing->fired() ? 0 : quiet + 1;
    failing.reset();
    int failed = 0;
    for (int k : {0, 1}) {
      const Status status = handles[k].ok() ? handles[k]->Wait()->status : handles[k].status();
      if (status.ok()) {
        EXPECT_EQ(handles[k]->Wait()->text, expected[k]);
        EXPECT_EQ(handles[k]->Wait()->tokens.size(), 5U);
      } else {
        EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
        ++failed;
      }
    }
    EXPECT_LE(failed, 1);
    failures += failed;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(failures, 20);
  EXPECT_EQ(quiet, 5);
}

}  // namespace
}  // namespace ropeway::engine
