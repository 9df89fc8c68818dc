#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

class ActivityTest : public testing::Test {
 protected:
  void SetUp() override { test_.Start(); }

  // Submits a request, and waits for its end.
  RequestId Run(const std::string& text, int32_t max_tokens) {
    Request request;
    request.prompt = text;
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.tenant = "a";
    request.priority = Priority::kLow;
    const auto sink = std::make_shared<TestSink>();
    const StatusOr<RequestId> id = test_.engine->Submit(std::move(request), sink);
    EXPECT_TRUE(id.ok()) << id.status().message();
    EXPECT_TRUE(sink->WaitForEnd());
    return id.ok() ? *id : 0;
  }

  // What it has done, once `count` requests have left.
  service::Activity WaitEnded(size_t count) {
    service::Activity activity;
    do {
      activity = test_.engine->ActivityAfter({});
    } while (activity.ended.size() < count);
    return activity;
  }

  TestEngine test_;
};

TEST_F(ActivityTest, EndedRequestsAreKeptWithTheirNumbers) {
  const RequestId id = Run("abcdef", 5);
  const service::Activity activity = WaitEnded(1);
  const service::EndedRequest& ended = activity.ended[0];
  EXPECT_EQ(ended.id, id);
  EXPECT_EQ(ended.number, 1U);
  EXPECT_EQ(ended.tenant, "a");
  EXPECT_EQ(ended.priority, Priority::kLow);
  EXPECT_EQ(ended.reason, FinishReason::kLength);
  EXPECT_EQ(ended.usage.completion_tokens, 5);
  EXPECT_GT(ended.usage.prompt_tokens, 0);
  EXPECT_GT(ended.ended_at, 1e9);
  EXPECT_EQ(activity.ttft.minute.count, 1U);
  EXPECT_EQ(activity.inter_token.minute.count, 4U);
  EXPECT_EQ(activity.e2e.hour.count, 1U);
  EXPECT_GE(activity.step.minute.count, 5U);
  EXPECT_TRUE(test_.engine->ActivityAfter({.step = 0, .ended = 1}).ended.empty());
}

TEST_F(ActivityTest, StepsAreKeptWhileSomebodyWatches) {
  Run("abc", 3);
  EXPECT_TRUE(WaitEnded(1).steps.empty());
  test_.engine->SetWatched(true);
  const RequestId id = Run("abcdef", 5);
  const std::vector<core::StepTrace> steps = WaitEnded(2).steps;
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps[0].content.items[0].sequence, id);
  EXPECT_EQ(steps[0].content.items[0].kind, core::StepContent::Kind::kPrefill);
  EXPECT_EQ(std::count_if(steps.begin(), steps.end(),
                          [](const core::StepTrace& step) {
                            return step.content.items[0].kind == core::StepContent::Kind::kDecode;
                          }),
            4);
  EXPECT_TRUE(test_.engine->ActivityAfter({.step = steps.back().step, .ended = 0}).steps.empty());
  test_.engine->SetWatched(false);
  EXPECT_TRUE(test_.engine->ActivityAfter({}).steps.empty());
}

}  // namespace
}  // namespace ropeway::engine
