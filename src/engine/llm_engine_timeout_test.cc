// Timeouts: each request ends by its deadline, wherever it is then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

std::shared_ptr<TestSink> SubmitWithTimeout(TestEngine* test, const std::string& text,
                                            int32_t max_tokens,
                                            std::optional<milliseconds> timeout) {
  Request request;
  request.prompt = text;
  request.max_tokens = max_tokens;
  request.timeout = timeout;
  auto sink = NewSink();
  EXPECT_TRUE(test->engine->Submit(std::move(request), sink).ok());
  return sink;
}

void ExpectTimeout(const TestSink::Seen& seen) {
  EXPECT_EQ(seen.error.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(seen.error.field(), "timeout");
}

TEST(LlmEngineTimeoutTest, EndsARunningRequestAndAWaitingOne) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.control->step_micros = 5000;  // 4,000 tokens take 20 s.
  test.Start();
  auto running = SubmitWithTimeout(&test, "abc", 4000, seconds(1000));
  auto waiting = SubmitWithTimeout(&test, "abc", 4000, seconds(500));
  auto patient = SubmitWithTimeout(&test, "abc", 3, {});
  ASSERT_TRUE(running->WaitDeltas(3));
  // Else the prompt pool may reject it, which is counted as rejected.
  ASSERT_TRUE(Eventually([&] { return waiting->Get().admitted; }));
  test.clock.skipped += 600;
  ExpectTimeout(waiting->WaitEnd());
  EXPECT_EQ(waiting->Get().deltas, 0);
  EXPECT_EQ(running->Get().ends, 0);
  test.clock.skipped += 600;
  ExpectTimeout(running->WaitEnd());
  EXPECT_GE(running->Get().deltas, 3);
  EXPECT_EQ(patient->WaitEnd().text, "abc");
  // It is no loss of the device, and the blocks are back.
  EXPECT_TRUE(test.engine->GetHealth().live);
  ASSERT_TRUE(test.engine->Drain(seconds(60)).ok());
  EXPECT_THAT(test.engine->MetricsText(), HasSubstr("ropeway_kv_cache_usage_ratio 0\n"));
  EXPECT_THAT(test.engine->MetricsText(), HasSubstr("finished_reason=\"failed\"} 2\n"));
}

TEST(LlmEngineTimeoutTest, TheSmallerOfRequestAndEngineCounts) {
  for (const bool engine_smaller : {false, true}) {
    TestEngine test;
    test.options.request_timeout = seconds(engine_smaller ? 100 : 1000);
    test.control->step_micros = 5000;
    test.Start();
    auto sink = SubmitWithTimeout(&test, "abc", 4000, seconds(engine_smaller ? 1000 : 100));
    ASSERT_TRUE(sink->WaitDeltas(1));
    test.clock.skipped += 200;
    ExpectTimeout(sink->WaitEnd());
  }
  TestEngine test;
  test.options.request_timeout = seconds(100);
  test.control->step_micros = 5000;
  test.Start();
  auto sink = SubmitWithTimeout(&test, "abc", 4000, {});
  ASSERT_TRUE(sink->WaitDeltas(1));
  test.clock.skipped += 200;
  ExpectTimeout(sink->WaitEnd());
}

TEST(LlmEngineTimeoutTest, AnAbsurdTimeoutIsNone) {
  TestEngine test;
  test.Start();
  auto sink = SubmitWithTimeout(&test, "abc", 3, milliseconds::max());
  EXPECT_EQ(sink->WaitEnd().text, "abc");
}

TEST(LlmEngineTimeoutTest, EndsWhatWaitsToBeEncodedLongBeforeItsTurn) {
  TestEngine test;
  test.control->encoding_gate.Close();
  test.Start();
  std::vector<std::shared_ptr<TestSink>> held;
  for (int i = 0; i < 3; ++i) held.push_back(SubmitWithTimeout(&test, ByteTokenizer::kHeld, 1, {}));
  auto sink = SubmitWithTimeout(&test, "abc", 1, seconds(100));
  test.clock.skipped += 200;
  test.control->encoding_gate.Admit(1);
  ExpectTimeout(sink->WaitEnd());
  EXPECT_FALSE(sink->Get().admitted);
  EXPECT_EQ(held.back()->Get().ends, 0) << "it waited for the encoding of others";
  test.control->encoding_gate.Open();
  for (const auto& each : held) EXPECT_EQ(each->WaitEnd().finish->reason, FinishReason::kLength);
}

TEST(LlmEngineTimeoutTest, EndsAPromptWhoseEncodingTakesTooLong) {
  TestEngine test;
  test.Start();
  auto sink = SubmitWithTimeout(&test, ByteTokenizer::kSlow, 1, milliseconds(1));
  ExpectTimeout(sink->WaitEnd());
  EXPECT_FALSE(sink->Get().admitted);
}

TEST(LlmEngineTimeoutTest, ANegativeLimitIsRejectedAtStart) {
  EngineOptions options;
  options.request_timeout = seconds(-1);
  EXPECT_EQ(ValidateEngineOptions(options).field(), "request_timeout");
}

}  // namespace
}  // namespace ropeway::engine
