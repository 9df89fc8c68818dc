#include <gtest/gtest.h>

#include <string>

#include "loadgen/summary.h"

namespace ropeway::loadgen {
namespace {

constexpr size_t kQueue = 0;
constexpr size_t kDecode = 3;

constexpr char kBefore[] =
    "# HELP ropeway_request_queue_time_seconds Of requests.\n"
    "# TYPE ropeway_request_queue_time_seconds histogram\n"
    "ropeway_request_queue_time_seconds_count{priority=\"high\"} 2\n"
    "ropeway_request_queue_time_seconds_sum{priority=\"high\"} 0.5\n"
    "ropeway_request_queue_time_seconds_bucket{priority=\"high\",le=\"0.1\"} 1\n"
    "ropeway_request_queue_time_seconds_bucket{priority=\"high\",le=\"+Inf\"} 2\n"
    "ropeway_request_queue_time_seconds_count{priority=\"low\"} 1\n"
    "ropeway_request_queue_time_seconds_sum{priority=\"low\"} 100\n"
    "ropeway_batches_total 10\n";
constexpr char kAfter[] =
    "ropeway_request_queue_time_seconds_count{priority=\"high\"} 6\n"
    "ropeway_request_queue_time_seconds_sum{priority=\"high\"} 2.5\n"
    "ropeway_request_queue_time_seconds_count{priority=\"low\"} 2\n"
    "ropeway_request_queue_time_seconds_sum{priority=\"low\"} 108\n"
    "ropeway_request_decode_time_seconds_count{priority=\"low\"} 2\n"
    "ropeway_request_decode_time_seconds_sum{priority=\"low\"} 3\n"
    "ropeway_batches_total 17\n";

TEST(ServerMetrics, AreWhatTheMetricsGained) {
  const auto gained = Between(ReadServerMetrics(kBefore), ReadServerMetrics(kAfter));
  ASSERT_TRUE(gained.has_value());
  EXPECT_EQ(gained->Mean(Priority::kHigh, kQueue), 0.5);  // 2 s of 4 requests.
  EXPECT_EQ(gained->Mean(Priority::kLow, kQueue), 8.0);
  EXPECT_EQ(gained->Mean(Priority::kMedium, kQueue), std::nullopt);
  EXPECT_EQ(gained->Mean(Priority::kHigh, kDecode), std::nullopt);
  EXPECT_EQ(gained->Mean(Priority::kLow, kDecode), 1.5);
  EXPECT_EQ(gained->Count(Priority::kHigh), 4);
  EXPECT_EQ(gained->Count(Priority::kMedium), 0);
  EXPECT_EQ(gained->batches, 7);
}

TEST(ServerMetrics, AreUnknownOfOtherServersAndAfterARestart) {
  const std::string other = "vllm:request_queue_time_seconds_count{priority=\"high\"} 2\n";
  EXPECT_FALSE(ReadServerMetrics("").has_value());
  EXPECT_FALSE(ReadServerMetrics(other).has_value());
  EXPECT_FALSE(ReadServerMetrics("{\"data\":[]}").has_value());
  EXPECT_FALSE(Between(ReadServerMetrics(other), ReadServerMetrics(kAfter)).has_value());
  EXPECT_FALSE(Between(ReadServerMetrics(kBefore), std::nullopt).has_value());
  EXPECT_FALSE(Between(ReadServerMetrics(kAfter), ReadServerMetrics(kBefore)).has_value());
}

TEST(ServerMetrics, OfSeveralRunsAddUp) {
  ServerMetrics all = *ReadServerMetrics(kBefore);
  all.Add(*ReadServerMetrics(kAfter));
  EXPECT_EQ(all.Count(Priority::kHigh), 8);
  EXPECT_EQ(all.Mean(Priority::kHigh, kQueue), 3.0 / 8);
  EXPECT_EQ(all.batches, 27);
}

}  // namespace
}  // namespace ropeway::loadgen
