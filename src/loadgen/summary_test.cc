#include "loadgen/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropeway::loadgen {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

RequestRecord Success(double ttft, double latency, std::vector<float> gaps, int64_t output) {
  RequestRecord record;
  record.status = 200;
  record.ttft = ttft;
  record.latency = latency;
  record.gaps = std::move(gaps);
  record.input_tokens = 10;
  record.output_tokens = output;
  return record;
}

RequestRecord Failure(const char* kind, const char* error) {
  RequestRecord record;
  record.error_kind = kind;
  record.error = error;
  record.latency = 99;
  record.output_tokens = 1000;  // A broken answer's tokens are not counted.
  return record;
}

TEST(Goodput, ReadsLimitsWithUnits) {
  auto limits = ParseGoodput({"ttft:500ms", "tpot:50000us", "e2e:2.5s"});
  ASSERT_TRUE(limits.ok());
  EXPECT_DOUBLE_EQ(*limits->ttft, 0.5);
  EXPECT_DOUBLE_EQ(*limits->tpot, 0.05);
  EXPECT_DOUBLE_EQ(*limits->e2e, 2.5);
  auto bare = ParseGoodput({"e2el:250"});
  ASSERT_TRUE(bare.ok());
  EXPECT_DOUBLE_EQ(*bare->e2e, 0.25);
  EXPECT_FALSE(ParseGoodput({})->any());
}

TEST(Goodput, RejectsWhatIsNoLimit) {
  for (const char* limit : {"", "ttft", "ttft:", "ttft:x", "ttft:-1ms", "ttft:0", "ttft:inf",
                            "itl:5ms", "ttft:5 ms", "ttft:5h", ":5ms"}) {
    auto limits = ParseGoodput({limit});
    ASSERT_FALSE(limits.ok()) << limit;
    EXPECT_THAT(limits.status().message(), HasSubstr("--goodput: expected limits"));
  }
}

TEST(Summary, MatchesFiguresWorkedOutByHand) {
  RunResult first;
  first.records = {Success(0.5, 2.5, {1.0F, 1.0F}, 3), Success(1.5, 1.5, {}, 1),
                   Failure(net::http_error::kTimeout, "no answer within 1 s")};
  first.wall_seconds = 3;
  first.cpu_seconds = 0.25;
  RunResult second;
  second.records = {Success(0.5, 4.5, {0.5F, 0.5F, 2.0F, 1.0F}, 5), Failure("HTTP 429", "full"),
                    Failure("HTTP 429", "still full"), Failure(net::http_error::kInterrupted, "")};
  second.wall_seconds = 5;
  second.cpu_seconds = 0.15;
  second.records[0].estimated = true;
  GoodputLimits limits;
  limits.ttft = 1.0;
  limits.e2e = 4.0;

  const Summary s = Summarize({&first, &second}, limits, 2);
  EXPECT_EQ(s.succeeded, 3);
  EXPECT_EQ(s.failed, 3);
  EXPECT_EQ(s.interrupted, 1);
  EXPECT_THAT(s.errors, ElementsAre(Pair("HTTP 429", 2), Pair("timeout", 1)));
  EXPECT_THAT(s.first, ElementsAre(Pair("HTTP 429", "full"), Pair("timeout", testing::_)));
  EXPECT_EQ(s.input_tokens, 30);
  EXPECT_EQ(s.output_tokens, 9);
  EXPECT_EQ(s.estimated, 1);
  EXPECT_DOUBLE_EQ(s.wall_seconds, 8);
  EXPECT_DOUBLE_EQ(s.cpu_share, 0.4 / 16);
  EXPECT_DOUBLE_EQ(s.PerSecond(s.output_tokens), 9.0 / 8);
  // TTFT 0.5 0.5 1.5; h(p90) = 1.8: 0.5 + 0.8 * 1.
  EXPECT_DOUBLE_EQ(s.ttft.mean, 2.5 / 3);
  EXPECT_DOUBLE_EQ(s.ttft.p50, 0.5);
  EXPECT_DOUBLE_EQ(s.ttft.p90, 1.3);
  // Gaps 0.5 0.5 1 1 1 2.
  EXPECT_EQ(s.itl.count, 6U);
  EXPECT_DOUBLE_EQ(s.itl.mean, 1);
  EXPECT_DOUBLE_EQ(s.itl.p90, 1.5);  // h = 4.5.
  // TPOT: (2.5 - 0.5) / 2 and (4.5 - 0.5) / 4; the answer of one token has none.
  EXPECT_EQ(s.tpot.count, 2U);
  EXPECT_DOUBLE_EQ(s.tpot.mean, 1);
  EXPECT_DOUBLE_EQ(s.e2e.p50, 2.5);
  EXPECT_DOUBLE_EQ(s.e2e.max, 4.5);
  // The second is late by TTFT, the third by its end.
  EXPECT_EQ(s.good, 1);
}

TEST(Summary, TpotLimitsAndNoRequests) {
  RunResult run;
  run.records = {Success(0.5, 2.5, {}, 3), Success(0.5, 1.5, {}, 3), Success(0.5, 0.5, {}, 1)};
  run.wall_seconds = 1;
  GoodputLimits limits;
  limits.tpot = 0.75;
  EXPECT_EQ(Summarize({&run}, limits, 2).good, 2);
  const Summary none = Summarize({}, limits, 2);
  EXPECT_EQ(none.succeeded, 0);
  EXPECT_EQ(none.cpu_share, 0);
  EXPECT_EQ(none.PerSecond(5), 0);
}

}  // namespace
}  // namespace ropeway::loadgen
