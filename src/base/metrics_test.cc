#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropeway::base {
namespace {

using testing::HasSubstr;

TEST(MetricsTest, TextHoldsEveryKind) {
  Metrics metrics;
  metrics.AddCounter("x_total", "Help.", {{"reason", "stop"}})->Increment(2);
  metrics.AddCounter("x_total", "Help.", {{"reason", "length"}})->Increment();
  metrics.AddGauge("x_ratio", "Help.")->Set(0.5);
  Histogram* histogram = metrics.AddHistogram("x_seconds", "Help.", {0.1, 1.0});
  histogram->Observe(0.05);
  histogram->Observe(0.5);
  histogram->Observe(5.0);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("# TYPE x_total counter\n"));
  EXPECT_THAT(text, HasSubstr("x_total{reason=\"stop\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("x_total{reason=\"length\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("x_ratio 0.5\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_bucket{le=\"0.1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_bucket{le=\"1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_count 3\n"));
}

TEST(MetricsTest, ACounterIsRaisedAndNeverLowered) {
  Metrics metrics;
  Counter* const counter = metrics.AddCounter("x_total", "Help.");
  RaiseTo(counter, 3);
  EXPECT_EQ(counter->Value(), 3);
  RaiseTo(counter, 2);
  EXPECT_EQ(counter->Value(), 3);
  RaiseTo(counter, 5);
  EXPECT_EQ(counter->Value(), 5);
}

TEST(MetricsTest, SampledOnesFollowTheSample) {
  Metrics metrics;
  SampledMetrics<int> sampled(&metrics);
  sampled.Add("x_total", "Help.", [](int sample) { return sample; });
  sampled.Add("x_now", "Help.", [](int sample) { return 2 * sample; }, {{"of", "it"}});
  sampled.Follow(5);
  sampled.Follow(3);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("x_total 5\n"));
  EXPECT_THAT(text, HasSubstr("x_now{of=\"it\"} 6\n"));
}

TEST(MetricsTest, BucketsAscendBetweenTheirEnds) {
  for (const auto& buckets : {LatencyBuckets(), ShortLatencyBuckets(), CountBuckets()}) {
    for (size_t i = 1; i < buckets.size(); ++i) EXPECT_LT(buckets[i - 1], buckets[i]);
  }
  EXPECT_DOUBLE_EQ(LatencyBuckets().front(), 0.001);
  EXPECT_DOUBLE_EQ(LatencyBuckets().back(), 250.0);
  EXPECT_DOUBLE_EQ(ShortLatencyBuckets().front(), 0.0001);
  EXPECT_DOUBLE_EQ(ShortLatencyBuckets().back(), 10.0);
  EXPECT_EQ(CountBuckets().back(), 4096);
}

}  // namespace
}  // namespace ropeway::base
