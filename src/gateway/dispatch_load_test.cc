#include "gateway/dispatch_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "gateway/test_dispatch_parts.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// One replica of two places. A token takes half a millisecond, or three times as much to generate.
class DispatchLoadTest : public DispatchPartsTest {
 protected:
  DispatchLoadTest() : DispatchPartsTest(Options()) {}

  static DispatchOptions Options() {
    DispatchOptions options;
    options.replicas = {{.name = "a", .max_concurrency = 2}};
    options.rules.table_entries = 1 << 10;
    options.queue.max_queued_requests = 3;
    options.queue.max_wait = milliseconds(1000);
    return options;
  }

  // Null: it was rejected, with status_.
  DispatchEntry* Add(int32_t max_tokens, const std::string& tenant = "t") {
    DispatchRequest request;
    request.tenant = tenant;
    request.prompt_tokens = 1;
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    return Queue(std::move(request));
  }
  // Measures while both places are taken.
  void Warm() {
    for (int i = 0; i < 2; ++i) Send(Add(250, "w"));
    load_.Measure();
    for (int i = 0; i < 20; ++i) {
      Advance(DispatchLoad::kPaceInterval);
      load_.OnWork(100, 100);
      load_.Measure();
    }
  }
};

TEST_F(DispatchLoadTest, PredictsNothingBeforeAPaceIsMeasured) {
  EXPECT_NE(Add(1'000'000), nullptr);
  EXPECT_EQ(load_.Queue(nullptr, 1.0).classes[1].wait_seconds, 0.0);
  EXPECT_EQ(load_.RetryAfterSeconds("t"), 1);
}

TEST_F(DispatchLoadTest, RejectsWhatWouldWaitTooLong) {
  Warm();
  EXPECT_NE(Add(100), nullptr);
  const double wait = load_.Queue(nullptr, 1.0).classes[1].wait_seconds;
  EXPECT_GT(wait, 0.5) << "two that run share the machine for 250 tokens each";
  EXPECT_GT(load_.RetryAfterSeconds("w"), 0);
  for (int i = 0; i < 2; ++i) Add(2000);
  EXPECT_EQ(Add(1), nullptr);
  EXPECT_EQ(status_.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status_.message(), HasSubstr("longer than max_wait"));
  EXPECT_GE(status_.retry_after_seconds(), 1);
}

TEST_F(DispatchLoadTest, PlacesInTheQueueAreLimited) {
  for (int i = 0; i < 2; ++i) Send(Add(10));
  EXPECT_EQ(entries_.places().used(), 0) << "what was sent has none";
  for (int i = 0; i < 3; ++i) EXPECT_NE(Add(10), nullptr);
  EXPECT_EQ(entries_.places().used(), 3);
  EXPECT_EQ(Add(10), nullptr);
  EXPECT_THAT(status_.message(), HasSubstr("it holds 3 requests, 3 of the same sender"));
  EXPECT_GE(status_.retry_after_seconds(), 1);
  EXPECT_NE(Add(10, "other"), nullptr) << "another tenant has its own";
}

TEST_F(DispatchLoadTest, CountsTheRequestsByClassAndSaysWhatIsMissing) {
  EXPECT_EQ(load_.Queue(nullptr, 1.0).blocked_by, "");
  for (int i = 0; i < 2; ++i) Send(Add(10));
  Add(10, "other");
  const service::QueueInfo all = load_.Queue(nullptr, 1.0);
  EXPECT_EQ(all.classes[1].running, 2);
  EXPECT_EQ(all.classes[1].waiting, 1);
  EXPECT_EQ(all.blocked_by, "slots");
  const std::string other = "other";
  EXPECT_EQ(load_.Queue(&other, 1.0).classes[1].running, 0);
}

}  // namespace
}  // namespace ropeway::gateway
