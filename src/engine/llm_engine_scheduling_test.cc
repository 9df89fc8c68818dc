// Classes, batches and admission in a whole engine of fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_options.h"
#include "engine/llm_engine.h"
#include "engine/test_fakes.h"
#include "scheduler/scheduler.h"

namespace ropeway::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

std::shared_ptr<TestSink> Submit(TestEngine* test, const std::string& text, int32_t max_tokens,
                                 Priority priority = Priority::kMedium) {
  Request request;
  request.prompt = text;
  request.max_tokens = max_tokens;
  request.priority = priority;
  auto sink = std::make_shared<TestSink>();
  EXPECT_TRUE(test->engine->Submit(std::move(request), sink).ok());
  return sink;
}

TEST(LlmEngineSchedulingTest, AHigherClassTakesTheOnlyPlaceAndTheTextStaysTheSame) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.control->step_micros = 2000;
  test.Start();
  auto low = Submit(&test, "abcdefgh", 400, Priority::kLow);
  ASSERT_TRUE(low->WaitDeltas(20));
  auto high = Submit(&test, "xyz", 3, Priority::kHigh);
  EXPECT_EQ(high->WaitEnd().text, "xyz");
  EXPECT_EQ(low->Get().ends, 0) << "it gave way, and goes on";
  const TestSink::Seen seen = low->WaitEnd();
  std::string expected;
  for (int i = 0; i < 50; ++i) expected += "abcdefgh";
  EXPECT_EQ(seen.text, expected);
  EXPECT_EQ(seen.finish->preemptions, 1);
  const std::string metrics = test.engine->MetricsText();
  EXPECT_THAT(metrics, HasSubstr("ropeway_num_preemptions_total{reason=\"priority\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("ropeway_recomputed_tokens_total 0\n"));
  EXPECT_THAT(metrics,
              HasSubstr("ropeway_request_queue_time_seconds_count{priority=\"high\"} 1\n"));
  // What the delivery of the end took is known a moment after it.
  EXPECT_TRUE(Eventually([&] {
    return test.engine->MetricsText().find(
               "ropeway_request_decode_time_seconds_count{priority=\"low\"} 1\n") !=
           std::string::npos;
  }));
}

TEST(LlmEngineSchedulingTest, AStaticBatchBeginsFullOrAtDrain) {
  TestEngine test;
  test.options.scheduler.strategy = "static";
  test.options.scheduler.static_padding = true;
  test.options.scheduler.max_batch_size = 2;
  test.options.scheduler.static_flush = std::chrono::hours(1);
  test.Start();
  auto first = Submit(&test, "ab", 4);
  ASSERT_TRUE(Eventually([&] { return first->Get().admitted; }));
  EXPECT_EQ(first->Get().deltas, 0);
  auto second = Submit(&test, "cde", 9);
  EXPECT_EQ(first->WaitEnd().text, "abab");
  EXPECT_EQ(second->WaitEnd().text, "cdecdecde");
  EXPECT_EQ(first->Get().finish->batch_num, 1U);
  EXPECT_EQ(second->Get().finish->batch_num, 1U);
  EXPECT_EQ(second->Get().finish->batch_size, 2);
  EXPECT_GT(first->Get().finish->times.formation.count(), 0);
  auto last = Submit(&test, "f", 2);
  EXPECT_TRUE(test.engine->Drain(seconds(60)).ok()) << "nothing more will come";
  EXPECT_EQ(last->WaitEnd().text, "ff");
  EXPECT_EQ(last->Get().finish->batch_num, 2U);
  EXPECT_EQ(last->Get().finish->batch_size, 1);
}

TEST(LlmEngineSchedulingTest, FlushBeginsWhatIsThere) {
  TestEngine test;
  test.options.scheduler.strategy = "dynamic";
  test.options.scheduler.max_batch_size = 8;
  test.options.scheduler.batch_timeout = std::chrono::hours(1);
  test.Start();
  auto first = Submit(&test, "ab", 2);
  ASSERT_TRUE(Eventually([&] { return first->Get().admitted; }));
  EXPECT_TRUE(test.engine->GetHealth().live) << "a batch that fills is no stall";
  EXPECT_EQ(first->Get().deltas, 0);
  test.engine->Flush();
  EXPECT_EQ(first->WaitEnd().text, "ab");
}

TEST(LlmEngineSchedulingTest, ABatchStartsAtItsTimeout) {
  TestEngine test;
  test.options.scheduler.strategy = "dynamic";
  test.options.scheduler.max_batch_size = 8;
  test.options.scheduler.batch_timeout = milliseconds(20);
  test.Start();
  EXPECT_EQ(Submit(&test, "ab", 2)->WaitEnd().text, "ab");
}

TEST(LlmEngineSchedulingTest, AnUrgentRequestStartsBesideARunningBatch) {
  for (const char* strategy : {"serial", "static", "dynamic"}) {
    TestEngine test;
    test.options.scheduler.strategy = strategy;
    test.options.scheduler.max_num_seqs = 2;
    test.options.scheduler.max_batch_size = 1;
    test.options.scheduler.urgent_joins = true;
    test.control->step_micros = 2000;
    test.Start();
    auto low = Submit(&test, "abc", 4000, Priority::kLow);
    ASSERT_TRUE(low->WaitDeltas(2));
    EXPECT_EQ(Submit(&test, "xyz", 3, Priority::kHigh)->WaitEnd().text, "xyz") << strategy;
    EXPECT_EQ(low->Get().ends, 0) << strategy;
  }
}

TEST(LlmEngineSchedulingTest, ThePositionInTheQueueIsTold) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.control->step_micros = 5000;
  test.Start();
  auto runs = Submit(&test, "abc", 4000, Priority::kHigh);
  ASSERT_TRUE(runs->WaitDeltas(2));
  auto low = Submit(&test, "l", 1, Priority::kLow);
  ASSERT_TRUE(Eventually([&] { return low->Get().admitted; }));
  auto medium = Submit(&test, "m", 1);
  auto later = Submit(&test, "n", 1);
  ASSERT_TRUE(Eventually([&] { return later->Get().admitted; }));
  EXPECT_EQ(low->Get().queue_position, 0);
  EXPECT_EQ(medium->Get().queue_position, 0);
  EXPECT_EQ(later->Get().queue_position, 1);
  ASSERT_TRUE(Eventually([&] {
    const std::vector<service::RequestInfo> all = test.engine->Requests();
    return all.size() == 4 && all[1].queue_position == 2;
  })) << "the low one goes last";
  const std::vector<service::RequestInfo> all = test.engine->Requests();
  EXPECT_EQ(all[0].state, service::RequestInfo::State::kRunning);
  EXPECT_EQ(all[3].state, service::RequestInfo::State::kWaiting);
  const service::QueueInfo queue = test.engine->Queue(nullptr, 1.0);
  EXPECT_EQ(queue.classes[0].running, 1);
  EXPECT_EQ(queue.classes[1].waiting, 2);
  EXPECT_EQ(queue.classes[2].waiting, 1);
  EXPECT_EQ(queue.blocked_by, "max_num_seqs");
}

TEST(LlmEngineSchedulingTest, WhoGaveWayIsSaidToBePreempted) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.control->step_micros = 2000;
  test.Start();
  auto low = Submit(&test, "abc", 4000, Priority::kLow);
  // Past the steps in which no sequence may be preempted.
  ASSERT_TRUE(low->WaitDeltas(scheduler::kMinRunSteps + 2));
  auto high = Submit(&test, "abc", 4000, Priority::kHigh);
  ASSERT_TRUE(high->WaitDeltas(1));
  ASSERT_TRUE(Eventually([&] {
    const std::vector<service::RequestInfo> all = test.engine->Requests();
    return all.size() == 2 && all[0].state == service::RequestInfo::State::kPreempted &&
           all[0].queue_position == 0 && all[1].state == service::RequestInfo::State::kRunning &&
           all[1].queue_position < 0;
  }));
  EXPECT_TRUE(test.engine->Cancel(test.engine->Requests()[1].id).ok());
  high->WaitEnd();
  ASSERT_TRUE(Eventually([&] {
    const std::vector<service::RequestInfo> all = test.engine->Requests();
    return all.size() == 1 && all[0].state == service::RequestInfo::State::kRunning;
  }));
}

TEST(LlmEngineSchedulingTest, TooManyTokensInTheQueueAreRejected) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.options.queue.max_queued_tokens = 20;
  test.control->step_micros = 5000;
  test.Start();
  auto runs = Submit(&test, "abc", 4000);
  ASSERT_TRUE(runs->WaitDeltas(2));
  auto waits = Submit(&test, std::string(30, 'w'), 1);
  ASSERT_TRUE(Eventually([&] { return waits->Get().admitted; })) << "alone it may be longer";
  const TestSink::Seen rejected = Submit(&test, "abc", 1)->WaitEnd();
  EXPECT_EQ(rejected.error.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(rejected.error.message(), HasSubstr("max_queued_tokens 20"));
  EXPECT_FALSE(rejected.admitted);
}

// The engine's speed is known after half a second of steps; of each step of 2 ms, sampling, which
// is a quarter, does not count.
constexpr int kStepsToKnowThePace = 400;

TEST(LlmEngineSchedulingTest, ARequestThatWouldWaitTooLongIsRejected) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.options.queue.max_wait = milliseconds(50);
  test.control->step_micros = 2000;
  test.Start();
  auto runs = Submit(&test, "abc", 4000);
  ASSERT_TRUE(runs->WaitDeltas(kStepsToKnowThePace));
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 20; ++i) sinks.push_back(Submit(&test, "abc", 1000));
  ASSERT_TRUE(Eventually([&] { return sinks.back()->Get().ends == 1; }));
  EXPECT_THAT(sinks.back()->Get().error.message(), HasSubstr("longer than max_wait"));
  EXPECT_GE(sinks.back()->Get().error.retry_after_seconds(), 1);
  EXPECT_GE(test.engine->RetryAfterSeconds(""), 1);
  EXPECT_EQ(runs->Get().ends, 0);
}

// Submits requests that are one to their client.
std::vector<std::shared_ptr<TestSink>> SubmitAll(TestEngine* test, int count, int32_t max_tokens,
                                                 const std::string& tenant = "") {
  std::vector<SinkRequest> requests;
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < count; ++i) {
    Request request;
    request.prompt = "abc";
    request.max_tokens = max_tokens;
    request.tenant = tenant;
    request.choice = static_cast<uint32_t>(i);
    sinks.push_back(std::make_shared<TestSink>());
    requests.push_back({std::move(request), sinks.back()});
  }
  const auto ids = test->engine->SubmitAll(std::move(requests));
  if (!ids.ok()) return {};
  EXPECT_EQ(ids->size(), static_cast<size_t>(count));
  return sinks;
}

TEST(LlmEngineSchedulingTest, AnIdleEngineAdmitsAllChoicesOfOneRequest) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.options.queue.max_wait = milliseconds(50);
  test.control->step_micros = 2000;
  test.Start();
  EXPECT_EQ(Submit(&test, "abc", kStepsToKnowThePace)->WaitEnd().ends, 1);
  // A second of work, where 50 ms are what anybody may wait.
  const auto sinks = SubmitAll(&test, 16, 30);
  ASSERT_EQ(sinks.size(), 16U);
  ASSERT_TRUE(Eventually([&] { return sinks.back()->Get().admitted; }));
  const TestSink::Seen other = Submit(&test, "xyz", 30)->WaitEnd();
  EXPECT_THAT(other.error.message(), HasSubstr("longer than max_wait"));
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().finish->reason, FinishReason::kLength);
  EXPECT_TRUE(Eventually([&] { return test.engine->Queue(nullptr, 1.0).classes[1].waiting == 0; }));
}

TEST(LlmEngineSchedulingTest, ChoicesThatDoNotFitTheQueueAreAllRejected) {
  TestEngine test;
  test.options.queue.max_queued_requests = 4;
  test.control->CloseGate();
  test.Start();
  EXPECT_TRUE(SubmitAll(&test, 5, 1).empty());
  EXPECT_TRUE(test.engine->Requests().empty()) << "none of them is under way";
  auto sinks = SubmitAll(&test, 4, 1);
  ASSERT_EQ(sinks.size(), 4U);
  EXPECT_TRUE(SubmitAll(&test, 1, 1).empty());
  // Another tenant has half of what is free.
  const auto others = SubmitAll(&test, 2, 1, "b");
  ASSERT_EQ(others.size(), 2U);
  EXPECT_TRUE(SubmitAll(&test, 1, 1, "b").empty());
  sinks.insert(sinks.end(), others.begin(), others.end());
  test.control->OpenGate();
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().text, "a");
  EXPECT_EQ(SubmitAll(&test, 4, 1).size(), 4U) << "their places are free again";
}

TEST(LlmEngineSchedulingTest, TheWaitIsTheAskingTenants) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 2;
  test.options.queue.max_wait = std::chrono::hours(1);
  test.control->step_micros = 2000;
  test.Start();
  const auto flood = SubmitAll(&test, 12, 4000, "a");
  ASSERT_EQ(flood.size(), 12U);
  ASSERT_TRUE(flood[0]->WaitDeltas(kStepsToKnowThePace));
  const std::string a = "a";
  const std::string b = "b";
  ASSERT_TRUE(Eventually([&] { return test.engine->Queue(&a, 1.0).classes[1].wait_seconds > 1; }));
  EXPECT_LT(test.engine->Queue(&b, 1.0).classes[1].wait_seconds, 0.5);
  EXPECT_GE(test.engine->Queue(nullptr, 1.0).classes[1].wait_seconds,
            test.engine->Queue(&a, 1.0).classes[1].wait_seconds * 0.5);
  EXPECT_GE(test.engine->RetryAfterSeconds("a"), 1);
  EXPECT_EQ(test.engine->RetryAfterSeconds("b"), 1);
}

TEST(LlmEngineSchedulingTest, TheStatsSayHowManyMayRunAtOnce) {
  SchedulingOptions options;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 4;
  EXPECT_EQ(DescribeBatching(options).max_batch_size, 4) << "a token each";
  options.strategy = "static";
  EXPECT_EQ(DescribeBatching(options).max_batch_size, 4);
  options.max_batch_size = 3;
  EXPECT_EQ(DescribeBatching(options).max_batch_size, 3);
  EXPECT_TRUE(DescribeBatching(options).enabled);
  options.strategy = "serial";
  EXPECT_EQ(DescribeBatching(options).max_batch_size, 1);
  EXPECT_FALSE(DescribeBatching(options).enabled);
  options.urgent_joins = true;
  EXPECT_EQ(DescribeBatching(options).max_batch_size, 1);
  EXPECT_TRUE(DescribeBatching(options).enabled) << "an urgent one beside it";
  options.max_num_batched_tokens = 1;
  EXPECT_FALSE(DescribeBatching(options).enabled);
  options.strategy = "continuous";
  EXPECT_FALSE(DescribeBatching(options).enabled);
}

TEST(LlmEngineSchedulingTest, BadOptionsAreRejectedByName) {
  const auto field_of = [](void (*change)(EngineOptions&)) {
    EngineOptions options;
    change(options);
    const Status status = ValidateEngineOptions(options);
    EXPECT_EQ(status.ok(), status.message().empty());
    return status.ok() ? "accepted" : status.field();
  };
  EXPECT_EQ(field_of([](EngineOptions&) {}), "accepted");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.scheduler.strategy = "fifo"; }), "scheduler");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.queue.policy = "priority+luck"; }), "policy");
  EXPECT_EQ(field_of([](EngineOptions& o) {
              o.queue.class_shares = {70, 20, 20};
            }),
            "class_shares");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.scheduler.batch_control.name = "pid"; }),
            "batch_control");
  EXPECT_EQ(
      field_of([](EngineOptions& o) { o.scheduler.batch_control.step_target = milliseconds(0); }),
      "step_target");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.queue.max_wait = milliseconds(0); }), "max_wait");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.queue.ttft_limits[2] = milliseconds(0); }),
            "ttft_limits");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.queue.latency_limits[0] = milliseconds(0); }),
            "latency_limits");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.scheduler.batch_control.start = 0; }), "aimd_start");
  EXPECT_EQ(field_of([](EngineOptions& o) {
              o.scheduler.batch_control.request_target = milliseconds(-1);
            }),
            "request_target");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.scheduler.target_latency = milliseconds(0); }),
            "target_latency");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.scheduler.max_batch_size = 0; }), "max_batch_size");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.queue.max_queued_tokens = 0; }), "max_queued_tokens");
  EXPECT_EQ(field_of([](EngineOptions& o) { o.scheduler.long_prefill_budget = 0; }),
            "long_prefill_budget");
}

TEST(LlmEngineSchedulingTest, AWeightOutOfItsRangeIsRejected) {
  TestEngine test;
  test.Start();
  for (const double weight : {0.0, -1.0, 101.0, std::numeric_limits<double>::quiet_NaN()}) {
    Request request;
    request.prompt = "a";
    request.tenant_weight = weight;
    const auto id = test.engine->Submit(std::move(request), std::make_shared<TestSink>());
    ASSERT_FALSE(id.ok());
    EXPECT_EQ(id.status().field(), "tenant_weight");
  }
}

}  // namespace
}  // namespace ropeway::engine
