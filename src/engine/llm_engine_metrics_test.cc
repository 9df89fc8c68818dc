// What the engine's metrics say of requests and steps.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway {
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
  auto refused = std::make_shared<TestSink>();
  test.Submit("", 3, refused);
  refused->WaitEnd();
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
                           "ropeway_request_refused_total 1\n", "ropeway_step_rows_sum 6\n",
                           "ropeway_step_rows_count 3\n", "ropeway_step_time_seconds_count 3\n"}) {
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

}  // namespace
}  // namespace ropeway
