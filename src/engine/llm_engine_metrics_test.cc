// What the engine's metrics say of requests and steps.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"
#include "kvcache/test_tier.h"

namespace ropeway::engine {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// The value of a metric's line, which begins with `name`.
double MetricValue(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name + " ");
  if (at == std::string::npos) return -1;
  return std::stod(text.substr(at + name.size() + 2));
}

// The last end comes out of the last step, a moment before the step itself is counted.
void WaitForSteps(const TestEngine& test, int steps) {
  EXPECT_TRUE(Eventually([&] {
    const std::string text = test.engine->MetricsText();
    double parts = 0;
    for (const char* part : {"forward", "sampling", "scheduling"}) {
      parts += MetricValue(text, fmt::format("ropeway_step_seconds_total{{part=\"{}\"}}", part));
    }
    const double sum = MetricValue(text, "ropeway_step_time_seconds_sum");
    return MetricValue(text, "ropeway_step_time_seconds_count") == steps &&
           std::abs(parts - sum) <= 1e-6 * sum;
  }));
}

TEST(LlmEngineMetricsTest, MetricsTellWhatHappened) {
  TestEngine test;
  test.Start();
  auto sink = std::make_shared<TestSink>();
  test.Submit("abcd", 3, sink);
  sink->WaitEnd();
  auto rejected = std::make_shared<TestSink>();
  test.Submit("", 3, rejected);
  rejected->WaitEnd();
  ASSERT_TRUE(test.engine->Drain(seconds(60)).ok());
  WaitForSteps(test, 3);
  const std::string text = test.engine->MetricsText();
  for (const char* line : {"ropeway_time_to_first_token_seconds_count{priority=\"medium\"} 1\n",
                           "ropeway_inter_token_latency_seconds_count{priority=\"medium\"} 2\n",
                           "ropeway_request_queue_time_seconds_count{priority=\"medium\"} 1\n",
                           "ropeway_e2e_request_latency_seconds_count{priority=\"medium\"} 1\n",
                           "ropeway_num_requests_running 0\n", "ropeway_num_requests_waiting 0\n",
                           "ropeway_kv_cache_usage_ratio 0\n",
                           "ropeway_cache_config_info{block_size=\"16\",cache_dtype=\"f16\",",
                           "ropeway_num_preemptions_total{reason=\"memory\"} 0\n",
                           "ropeway_prompt_tokens_total 4\n", "ropeway_generation_tokens_total 3\n",
                           "ropeway_request_success_total{finished_reason=\"length\"} 1\n",
                           "ropeway_request_success_total{finished_reason=\"stop\"} 0\n",
                           "ropeway_request_rejected_total 1\n", "ropeway_step_rows_sum 6\n",
                           "ropeway_step_rows_count 3\n", "ropeway_step_time_seconds_count 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// While the engine's thread is late, a scrape sees the values of the last sample.
class TierOfALateThread final : public kvcache::TestTier {
 public:
  explicit TierOfALateThread(std::shared_future<void> go) : go_(std::move(go)) {}

  kvcache::KvTierUsage Usage() const override {
    if (std::this_thread::get_id() != home_) go_.wait();
    return {.on = true, .blocks = 7};
  }

 private:
  const std::thread::id home_ = std::this_thread::get_id();
  const std::shared_future<void> go_;
};

TEST(LlmEngineMetricsTest, WhatTheTierKeptIsSeenFromTheStartOn) {
  std::promise<void> go;
  TestEngine test;
  test.tier = std::make_unique<TierOfALateThread>(go.get_future().share());
  test.Start();
  const std::string text = test.engine->MetricsText();
  go.set_value();
  EXPECT_THAT(text, HasSubstr("ropeway_kv_disk_on 1\n"));
  EXPECT_THAT(text, HasSubstr("ropeway_kv_disk_blocks 7\n"));
}

TEST(LlmEngineMetricsTest, WhoIsToldAnEndFindsNumbersThatIncludeIt) {
  TestEngine test;
  test.control->step_micros = 2000;
  test.Start();
  for (uint64_t i = 1; i <= 20; ++i) {
    auto sink = std::make_shared<TestSink>();
    test.Submit("abcd", 1, sink);
    sink->WaitEnd();
    const EngineStats stats = test.engine->Stats();
    EXPECT_EQ(stats.total_steps, i);
    EXPECT_EQ(stats.running, 0);
    EXPECT_GE(stats.avg_step_duration_ms, 2);
    EXPECT_GT(stats.utilization, 0);
  }
}

TEST(LlmEngineMetricsTest, LateRequestsAreCountedByClass) {
  TestEngine test;
  test.control->step_micros = 4000;
  test.options.queue.ttft_limits[1] = std::chrono::milliseconds(2);
  test.options.queue.latency_limits[1] = std::chrono::milliseconds(5);
  test.Start();
  auto sink = std::make_shared<TestSink>();
  test.Submit("abcd", 3, sink);
  sink->WaitEnd();
  const std::string text = test.engine->MetricsText();
  for (const char* line : {"ropeway_ttft_limit_seconds{priority=\"medium\"} 0.002\n",
                           "ropeway_ttft_limit_violations_total{priority=\"medium\"} 1\n",
                           "ropeway_ttft_limit_violations_total{priority=\"high\"} 0\n",
                           "ropeway_e2e_limit_seconds{priority=\"high\"} 10\n",
                           "ropeway_e2e_limit_seconds{priority=\"medium\"} 0.005\n",
                           "ropeway_e2e_limit_violations_total{priority=\"medium\"} 1\n",
                           "ropeway_e2e_limit_violations_total{priority=\"high\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(LlmEngineMetricsTest, TheTimeOfStepsIsCountedByWhatItWentInto) {
  TestEngine test;
  test.control->step_micros = 4000;
  test.Start();
  auto sink = std::make_shared<TestSink>();
  test.Submit("abcd", 3, sink);
  sink->WaitEnd();
  ASSERT_TRUE(test.engine->Drain(seconds(60)).ok());
  WaitForSteps(test, 3);
  const std::string text = test.engine->MetricsText();
  const double forward = MetricValue(text, "ropeway_step_seconds_total{part=\"forward\"}");
  const double sampling = MetricValue(text, "ropeway_step_seconds_total{part=\"sampling\"}");
  const double scheduling = MetricValue(text, "ropeway_step_seconds_total{part=\"scheduling\"}");
  EXPECT_NEAR(sampling, 3 * 0.001, 1e-6);
  EXPECT_GE(forward, 3 * 0.003);
  EXPECT_GT(scheduling, 0);
  const double sum = MetricValue(text, "ropeway_step_time_seconds_sum");
  EXPECT_NEAR(forward + sampling + scheduling, sum, 1e-6 * sum);
}

TEST(LlmEngineStatsTest, ContinuousBatchingCountsStepsRowsAndBatches) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 7;
  test.control->step_micros = 2000;
  test.Start();
  auto first = std::make_shared<TestSink>();
  test.Submit("abcd", 3, first);
  const TestSink::Seen seen = first->WaitEnd();
  auto second = std::make_shared<TestSink>();
  test.Submit("ab", 2, second);
  EXPECT_EQ(second->WaitEnd().finish->batch_num, 2U);
  EXPECT_EQ(seen.finish->batch_num, 1U);
  ASSERT_TRUE(test.engine->Drain(seconds(60)).ok());
  WaitForSteps(test, 5);
  const EngineStats stats = test.engine->Stats();
  EXPECT_TRUE(stats.enabled);
  EXPECT_EQ(stats.strategy, "continuous");
  EXPECT_EQ(stats.max_batch_size, 7);
  EXPECT_EQ(stats.max_batch_wait_ms, 0);
  EXPECT_EQ(stats.total_batches, 2U);
  EXPECT_EQ(stats.total_requests, 2U);
  EXPECT_EQ(stats.avg_batch_size, 1);
  EXPECT_GE(stats.avg_batch_duration_ms, 2 * 2.0);
  EXPECT_LT(stats.avg_batch_duration_ms, 60e3);
  EXPECT_EQ(stats.total_steps, 5U);
  EXPECT_EQ(stats.total_rows, 4U + 2 + 2 + 1);
  EXPECT_DOUBLE_EQ(stats.avg_step_rows, 9.0 / 5);
  EXPECT_EQ(stats.avg_step_size, 1);
  EXPECT_GE(stats.avg_step_duration_ms, 2.0);
  EXPECT_EQ(stats.queue_depth, 0);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.kv_blocks_held, 0);
  EXPECT_GT(stats.kv_blocks_free, 0);
  EXPECT_GT(stats.utilization, 0);
  EXPECT_LE(stats.utilization, 1);
  EXPECT_GT(stats.prompt_tokens_per_second, 0);
  EXPECT_GT(stats.generation_tokens_per_second, 0);
  const std::string text = test.engine->MetricsText();
  for (const char* line : {"ropeway_batching_info{strategy=\"continuous\"} 1\n",
                           "# TYPE ropeway_batches_total counter\n", "ropeway_batches_total 2\n",
                           "# TYPE ropeway_batched_requests_total counter\n",
                           "ropeway_batched_requests_total 2\n", "ropeway_batch_size_avg 1\n",
                           "ropeway_batch_size_max 7\n", "ropeway_batch_wait_max_seconds 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_DOUBLE_EQ(MetricValue(text, "ropeway_step_rows_avg"), 9.0 / 5);
  EXPECT_GE(MetricValue(text, "ropeway_batch_duration_avg_seconds"), 2 * 0.002);
  EXPECT_GT(MetricValue(text, "ropeway_utilization_ratio"), 0);
  EXPECT_GT(MetricValue(text, "ropeway_prompt_tokens_per_second"), 0);
  EXPECT_GT(MetricValue(text, "ropeway_generation_tokens_per_second"), 0);
}

TEST(LlmEngineStatsTest, QueueDepthAndRunningAreOfNow) {
  TestEngine test;
  test.options.scheduler.max_num_seqs = 1;
  test.control->step_micros = 500;
  test.Start();
  auto runs = std::make_shared<TestSink>();
  const RequestId id = test.Submit("abc", 4000, runs);
  ASSERT_TRUE(runs->WaitDeltas(1));
  auto waits = std::make_shared<TestSink>();
  test.Submit("abc", 1, waits);
  ASSERT_TRUE(Eventually([&] { return waits->Get().admitted; }));
  const EngineStats stats = test.engine->Stats();
  EXPECT_EQ(stats.running, 1);
  EXPECT_EQ(stats.waiting, 1);
  EXPECT_EQ(stats.preempted, 0);
  EXPECT_EQ(stats.queue_depth, 1);
  EXPECT_GT(stats.kv_blocks_held, 0);
  EXPECT_FALSE(stats.enabled) << "one sequence at a time";
  EXPECT_TRUE(test.engine->Cancel(id).ok());
  waits->WaitEnd();
}

TEST(LlmEngineStatsTest, BatchesAreCountedWithTheirSizesAndTimes) {
  TestEngine test;
  test.options.scheduler.strategy = "static";
  test.options.scheduler.max_batch_size = 2;
  test.options.scheduler.static_flush = std::chrono::milliseconds(1500);
  test.control->step_micros = 3000;
  test.Start();
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(std::make_shared<TestSink>());
    test.Submit("ab", i == 1 ? 5 : 2, sinks.back());
  }
  // A flush is for what came before it: a prompt that is still encoded did not.
  ASSERT_TRUE(Eventually([&] {
    return std::ranges::all_of(sinks, [](const auto& sink) { return sink->Get().admitted; });
  }));
  test.engine->Flush();
  for (const auto& sink : sinks) sink->WaitEnd();
  ASSERT_TRUE(test.engine->Drain(seconds(60)).ok());
  ASSERT_TRUE(Eventually([&] { return test.engine->Stats().total_requests == 3; }));
  const EngineStats stats = test.engine->Stats();
  EXPECT_EQ(stats.strategy, "static");
  EXPECT_EQ(stats.max_batch_size, 2);
  EXPECT_EQ(stats.max_batch_wait_ms, 1500);
  EXPECT_EQ(stats.total_batches, 2U);
  EXPECT_EQ(stats.avg_batch_size, 1.5);
  // Batches of five steps and of two.
  EXPECT_GE(stats.avg_batch_duration_ms, 3.0 * 7 / 2);
  EXPECT_LT(stats.avg_batch_duration_ms, 60e3);
  EXPECT_EQ(sinks[2]->Get().finish->batch_num, 2U);
}

TEST(LlmEngineStatsTest, ARequestsTimesAddUpToItsLatency) {
  TestEngine test;
  test.options.scheduler.strategy = "dynamic";
  test.options.scheduler.max_batch_size = 2;
  test.options.scheduler.batch_timeout = std::chrono::milliseconds(30);
  test.control->step_micros = 4000;
  test.Start();
  const base::TimePoint begin = test.clock.Now();
  auto sink = std::make_shared<TestSink>();
  test.Submit("abcd", 3, sink);
  const TestSink::Seen seen = sink->WaitEnd();
  const base::Duration latency = test.clock.Now() - begin;
  const PhaseTimes& times = seen.finish->times;
  EXPECT_GE(times.formation, std::chrono::milliseconds(20));
  EXPECT_GE(times.queue, times.formation);
  EXPECT_GE(times.prefill, std::chrono::milliseconds(4));
  EXPECT_GE(times.decode, std::chrono::milliseconds(8));
  EXPECT_GT(times.output, base::Duration{});
  EXPECT_LE(times.queue + times.prefill + times.decode + times.output, latency);
}

TEST(LlmEngineStatsTest, ARequestThatIsOnlyScoredHasItsTimesToo) {
  TestEngine test;
  test.control->step_micros = 4000;
  test.Start();
  Request request;
  request.prompt = "abcd";
  request.max_tokens = 0;
  request.prompt_logprobs = 0;
  auto sink = std::make_shared<TestSink>();
  ASSERT_TRUE(test.engine->Submit(std::move(request), sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  ASSERT_EQ(seen.finish->usage.completion_tokens, 0);
  const PhaseTimes& times = seen.finish->times;
  EXPECT_GE(times.prefill, std::chrono::milliseconds(4));
  EXPECT_EQ(times.decode, base::Duration{});
  EXPECT_GT(times.output, base::Duration{});
  const std::string text = test.engine->MetricsText();
  for (const char* phase : {"prefill", "decode", "output"}) {
    EXPECT_THAT(text,
                HasSubstr(fmt::format(
                    "ropeway_request_{}_time_seconds_count{{priority=\"medium\"}} 1\n", phase)));
  }
}

}  // namespace
}  // namespace ropeway::engine
