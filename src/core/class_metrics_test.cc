#include "core/class_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace ropeway::core {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(ClassMetricsTest, EachClassHasItsOwnOfAll) {
  base::Metrics metrics;
  const RequestMetrics requests(
      &metrics, {.ttft_limits = {milliseconds(100), milliseconds(300), milliseconds(500)},
                 .latency_limits = {milliseconds(1000), milliseconds(2000), milliseconds(3000)}});
  const ClassMetrics& high = requests.of(Priority::kHigh);
  high.Started(milliseconds(50), milliseconds(20));
  high.FirstToken(milliseconds(101));
  high.Token(milliseconds(10));
  high.Ended(
      {.prefill = milliseconds(1000), .decode = milliseconds(2000), .output = milliseconds(3000)});
  high.EndedAfter(milliseconds(1001));
  high.SetQueue(4, 5, 6.5);
  const ClassMetrics& low = requests.of(Priority::kLow);
  low.FirstToken(milliseconds(101));
  requests.Ended(Priority::kLow, FinishReason::kStop, milliseconds(1001));
  const std::string text = metrics.Text();
  for (const char* line : {"ropeway_request_queue_time_seconds_sum{priority=\"high\"} 0.05\n",
                           "ropeway_request_formation_time_seconds_sum{priority=\"high\"} 0.02\n",
                           "ropeway_inter_token_latency_seconds_count{priority=\"high\"} 1\n",
                           "ropeway_request_prefill_time_seconds_sum{priority=\"high\"} 1\n",
                           "ropeway_request_decode_time_seconds_sum{priority=\"high\"} 2\n",
                           "ropeway_request_output_time_seconds_sum{priority=\"high\"} 3\n",
                           "ropeway_ttft_limit_violations_total{priority=\"high\"} 1\n",
                           "ropeway_e2e_limit_violations_total{priority=\"high\"} 1\n",
                           "ropeway_ttft_limit_violations_total{priority=\"low\"} 0\n",
                           "ropeway_e2e_limit_violations_total{priority=\"low\"} 0\n",
                           "ropeway_time_to_first_token_seconds_count{priority=\"low\"} 1\n",
                           "ropeway_time_to_first_token_seconds_count{priority=\"medium\"} 0\n",
                           "ropeway_queue_depth{priority=\"high\"} 4\n",
                           "ropeway_class_running{priority=\"high\"} 5\n",
                           "ropeway_expected_wait_seconds{priority=\"high\"} 6.5\n",
                           "ropeway_request_success_total{finished_reason=\"stop\"} 1\n",
                           "ropeway_request_success_total{finished_reason=\"length\"} 0\n",
                           "ropeway_ttft_limit_seconds{priority=\"low\"} 0.5\n",
                           "ropeway_e2e_limit_seconds{priority=\"medium\"} 2\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace ropeway::core
