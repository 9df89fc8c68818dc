// Prompts are encoded in pieces and in fair shares, in a whole engine of fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

TEST(LlmEngineEncodingTest, ATextThatTakesLongToEncodeHoldsUpNoneThatCameLater) {
  TestEngine test;
  test.Start();
  auto endless = NewSink();
  Request request = TextRequest(ByteTokenizer::kEndless);
  request.priority = Priority::kLow;
  const StatusOr<RequestId> id = test.engine->Submit(request, endless);
  ASSERT_TRUE(id.ok());
  auto later = NewSink();
  test.Submit("abc", 3, later);
  EXPECT_EQ(later->WaitEnd().text, "abc");
  EXPECT_EQ(endless->Get().ends, 0);
  // Once it is cancelled no piece of it is encoded any more.
  EXPECT_TRUE(test.engine->Cancel(*id).ok());
  EXPECT_EQ(endless->WaitEnd().error.code(), StatusCode::kCancelled);
  EXPECT_THAT(
      test.engine->MetricsText(),
      testing::AllOf(
          testing::HasSubstr(
              "ropeway_request_encoding_time_seconds_count{priority=\"medium\"} 1\n"),
          testing::HasSubstr("ropeway_request_encoding_time_seconds_count{priority=\"low\"} 0\n")));
  EXPECT_LT(IdleCpuShare(), 0.1);
}

// Prompts are encoded in fair shares between tenants: not even a higher class shuts another out.
TEST(LlmEngineEncodingTest, OneTenantsPromptsHoldUpNoOthers) {
  TestEngine test;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 150; ++i) {
    sinks.push_back(NewSink());
    Request request = TextRequest(ByteTokenizer::kEndless);
    request.tenant = "greedy";
    request.tenant_weight = 100;
    request.priority = Priority::kHigh;
    ASSERT_TRUE(test.engine->Submit(request, sinks.back()).ok());
  }
  for (int i = 0; i < 20; ++i) {
    auto sink = NewSink();
    Request request = TextRequest("Hi");
    request.tenant = "modest";
    request.priority = Priority::kLow;
    request.max_tokens = 2;
    ASSERT_TRUE(test.engine->Submit(request, sink).ok());
    EXPECT_EQ(sink->WaitEnd().text, "Hi");
  }
}

TEST(LlmEngineEncodingTest, DrainCutsTextsThatAreBeingEncoded) {
  TestEngine test;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 5; ++i) {
    sinks.push_back(NewSink());
    test.Submit(ByteTokenizer::kEndless, 1, sinks.back());
  }
  EXPECT_THAT(test.engine->Drain(std::chrono::milliseconds(20)).message(),
              testing::HasSubstr("5 requests"));
  for (const auto& sink : sinks) EXPECT_EQ(sink->Get().error.code(), StatusCode::kCancelled);
  test.engine.reset();
  for (const auto& sink : sinks) EXPECT_EQ(sink.use_count(), 1);
}

// Nor does a crowd of one tenant's arrivals between two steps hold up another's.
TEST(LlmEngineArrivalsTest, TenantsTakeTurns) {
  TestEngine test;
  test.Start();
  test.control->CloseGate();
  std::vector<std::shared_ptr<TestSink>> sinks;
  const auto submit = [&](const std::string& tenant) {
    sinks.push_back(NewSink());
    Request request = TextRequest("Hi");
    request.tenant = tenant;
    request.max_tokens = 2;
    ASSERT_TRUE(test.engine->Submit(request, sinks.back()).ok());
  };
  submit("first");
  // In the step that the gate holds.
  ASSERT_TRUE(Eventually([&] { return sinks[0]->Get().admitted; }));
  for (int i = 0; i < 200; ++i) submit("greedy");
  submit("modest");
  ASSERT_TRUE(Eventually([&] {
    return test.engine->MetricsText().find(
               "ropeway_request_encoding_time_seconds_count{priority=\"medium\"} 202\n") !=
           std::string::npos;
  }));
  test.control->OpenGate();
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().text, "Hi");
  EXPECT_LE(sinks.back()->Get().queue_position, 2);
}

}  // namespace
}  // namespace ropeway::engine
