#include "bench/server_phases.h"

#include <gtest/gtest.h>

#include <string>

namespace ropeway {
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
    "ropeway_request_queue_time_seconds_sum{priority=\"low\"} 100\n";
constexpr char kAfter[] =
    "ropeway_request_queue_time_seconds_count{priority=\"high\"} 6\n"
    "ropeway_request_queue_time_seconds_sum{priority=\"high\"} 2.5\n"
    "ropeway_request_queue_time_seconds_count{priority=\"low\"} 2\n"
    "ropeway_request_queue_time_seconds_sum{priority=\"low\"} 108\n"
    "ropeway_request_decode_time_seconds_count{priority=\"low\"} 2\n"
    "ropeway_request_decode_time_seconds_sum{priority=\"low\"} 3\n";

TEST(ServerPhases, AreWhatTheMetricsGained) {
  const auto gained = Between(ReadServerPhases(kBefore), ReadServerPhases(kAfter));
  ASSERT_TRUE(gained.has_value());
  EXPECT_EQ(gained->Mean(Priority::kHigh, kQueue), 0.5);  // 2 s of 4 requests.
  EXPECT_EQ(gained->Mean(Priority::kLow, kQueue), 8.0);
  EXPECT_EQ(gained->Mean(std::nullopt, kQueue), 2.0);
  EXPECT_EQ(gained->Mean(Priority::kMedium, kQueue), std::nullopt);
  EXPECT_EQ(gained->Mean(Priority::kHigh, kDecode), std::nullopt);
  EXPECT_EQ(gained->Mean(std::nullopt, kDecode), 1.5);
  EXPECT_EQ(gained->Count(Priority::kHigh), 4);
  EXPECT_EQ(gained->Count(Priority::kMedium), 0);
}

TEST(ServerPhases, AreUnknownOfOtherServersAndOfOnesThatBeganAnew) {
  const std::string other = "vllm:request_queue_time_seconds_count{priority=\"high\"} 2\n";
  EXPECT_FALSE(ReadServerPhases("").has_value());
  EXPECT_FALSE(ReadServerPhases(other).has_value());
  EXPECT_FALSE(ReadServerPhases("{\"data\":[]}").has_value());
  EXPECT_FALSE(Between(ReadServerPhases(other), ReadServerPhases(kAfter)).has_value());
  EXPECT_FALSE(Between(ReadServerPhases(kBefore), std::nullopt).has_value());
  EXPECT_FALSE(Between(ReadServerPhases(kAfter), ReadServerPhases(kBefore)).has_value());
}

TEST(ServerPhases, OfSeveralRunsAddUp) {
  ServerPhases all = *ReadServerPhases(kBefore);
  all.Add(*ReadServerPhases(kAfter));
  EXPECT_EQ(all.Count(Priority::kHigh), 8);
  EXPECT_EQ(all.Mean(Priority::kHigh, kQueue), 3.0 / 8);
}

}  // namespace
}  // namespace ropeway
