#include "bench/prefix_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/queue_growth.h"

namespace ropeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TraceEntry Entry(int input, int output, double arrival, std::vector<uint64_t> ids) {
  return {input, output, arrival, std::move(ids)};
}

PrefixRequest Request(int input, std::vector<uint64_t> blocks) {
  return {0, input, 4, std::move(blocks)};
}

TEST(ScaleTrace, DividesRoundingUpAndKeepsTheBlocks) {
  Trace trace;
  trace.entries = {Entry(513, 9, 0, {1, 2}), Entry(1, 1, 2.5, {3})};
  const auto scaled = ScaleTrace(trace, {});
  ASSERT_TRUE(scaled.ok()) << scaled.status().message();
  EXPECT_EQ((*scaled)[0].input_tokens, 33);
  EXPECT_EQ((*scaled)[0].output_tokens, 3);
  EXPECT_THAT((*scaled)[0].blocks, ElementsAre(1, 2));
  EXPECT_EQ((*scaled)[1].input_tokens, 1);
  EXPECT_EQ((*scaled)[1].arrival, 2.5);
}

TEST(ScaleTrace, RefusesWhatHasNoBlocksOrNoArrival) {
  Trace trace;
  trace.entries = {Entry(512, 9, 0, {1}), Entry(513, 9, 0, {1})};
  EXPECT_THAT(ScaleTrace(trace, {}).status().message(), HasSubstr("request 2 of the trace"));
  trace.entries = {Entry(512, 9, 0, {})};
  EXPECT_FALSE(ScaleTrace(trace, {}).ok());
  trace.entries = {{512, 9, std::nullopt, {1}}};
  EXPECT_FALSE(ScaleTrace(trace, {}).ok());
}

TEST(PromptIds, AgreeExactlyAsFarAsTheBlocksDo) {
  const std::vector<int32_t> one = PromptIds(Request(70, {5, 6, 7}), 32);
  const std::vector<int32_t> two = PromptIds(Request(96, {5, 6, 8}), 32);
  ASSERT_EQ(one.size(), 70U);
  ASSERT_EQ(two.size(), 96U);
  const auto parted = std::mismatch(one.begin(), one.end(), two.begin());
  EXPECT_EQ(parted.first - one.begin(), 64);
  EXPECT_GE(*std::min_element(two.begin(), two.end()), 1000);
  EXPECT_LE(*std::max_element(two.begin(), two.end()), 29999);
}

TEST(AskInfiniteCache, CountsLeadingBlocksThatWereSeen) {
  const std::vector<PrefixRequest> requests = {Request(64, {1, 2}), Request(64, {1, 2}),
                                               Request(80, {1, 9, 2}), Request(40, {1, 2})};
  const InfiniteCache all = AskInfiniteCache(requests, 0, 32, 16);
  EXPECT_EQ(all.input_tokens, 64 + 64 + 80 + 40);
  EXPECT_EQ(all.output_tokens, 16);
  EXPECT_EQ(all.hit_tokens, 64 + 32 + 40);  // Block 2 behind block 9 is known and no use.
  // Never the last token of a prompt, and whole blocks of 16: 48, 32, 32.
  EXPECT_EQ(all.hit_kv_tokens, 48 + 32 + 32);
  EXPECT_EQ(all.distinct_tokens, 64 + 32);
  const InfiniteCache last = AskInfiniteCache(requests, 3, 32, 16);
  EXPECT_EQ(last.input_tokens, 40);
  EXPECT_EQ(last.hit_tokens, 40);
  EXPECT_EQ(last.distinct_tokens, 0);
}

RequestRecord Record(double due, double latency) {
  RequestRecord record;
  record.due = due;
  record.latency = latency;
  return record;
}

TEST(MeasureGrowth, AStableQueueDrainsAtOnceAndAGrowingOneDoesNot) {
  std::vector<RequestRecord> stable;
  std::vector<RequestRecord> growing;
  for (int i = 0; i <= 100; ++i) {
    stable.push_back(Record(i, 2));
    growing.push_back(Record(i, 1.3 * (i + 1) - i));  // Served one after the other, 1.3 s each.
  }
  const QueueGrowth calm = MeasureGrowth(stable);
  EXPECT_DOUBLE_EQ(calm.arrivals_seconds, 100);
  EXPECT_DOUBLE_EQ(calm.drain_seconds, 2);
  EXPECT_LE(calm.drain_share(), kStableTo);
  EXPECT_NEAR(calm.in_flight[0], 2, 0.1);
  EXPECT_NEAR(calm.in_flight[3], 2, 0.1);
  const QueueGrowth queue = MeasureGrowth(growing);
  EXPECT_NEAR(queue.drain_share(), 0.31, 0.02);
  EXPECT_GE(queue.drain_share(), kGrowsFrom);
  EXPECT_GT(queue.in_flight[3], 2 * queue.in_flight[1]);
  EXPECT_EQ(MeasureGrowth({}).drain_share(), 0);
}

}  // namespace
}  // namespace ropeway
