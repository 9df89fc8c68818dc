#include "bench/service.h"

#include <gtest/gtest.h>

namespace ropeway {
namespace {

// Arrives at `due`, is answered from `first` on with a token each second.
RequestRecord Record(double due, double first, int input, int output) {
  RequestRecord record;
  record.due = due;
  record.ttft = first - due;
  record.gaps.assign(static_cast<size_t>(output - 1), 1.0F);
  record.input_tokens = input;
  record.output_tokens = output;
  record.latency = first - due + output - 1;
  return record;
}

TEST(ServiceTrail, CountsAPromptWithTheFirstPieceAndTokensWithTheirs) {
  ServiceTrail trail({.input = 1, .output = 2});
  trail.Add(Record(0, 2, 10, 4));  // Pieces at 2, 3, 4 and 5.
  trail.Add(Record(0, 1, 5, 1), 2);
  RequestRecord cached = Record(8, 9, 20, 1);
  cached.cached_tokens = 16;
  trail.Add(cached);
  RequestRecord failed = Record(0, 1, 100, 9);
  failed.error_kind = "timeout";
  trail.Add(failed);
  trail.Close();
  EXPECT_DOUBLE_EQ(trail.Between(0, 1.9), 0);
  EXPECT_DOUBLE_EQ(trail.Between(0, 2), 12);
  EXPECT_DOUBLE_EQ(trail.Between(2, 5), 3 * 2 + 5 + 2);
  EXPECT_DOUBLE_EQ(trail.Between(8, 9), 4 + 2);
}

TEST(ServiceTrail, WaitsOverlap) {
  ServiceTrail trail({});
  for (const double due : {0.0, 3.0, 6.5}) trail.Add(Record(due, due + 3, 1, 1));
  trail.Close();
  EXPECT_TRUE(trail.WaitedThrough(1, 5.5));  // The second arrives just when the first is answered.
  EXPECT_FALSE(trail.WaitedThrough(1, 6.2));
  EXPECT_TRUE(trail.WaitedThrough(6.5, 9.5));
}

TEST(MeasureServiceGap, IsOfClientsWhoWaitAllTheTime) {
  std::vector<RequestRecord> records;
  std::vector<int> clients;
  // Client 0 gets an answer each second, client 1 every other one; both have asked for everything
  // at the start. Client 2 got more than either, and waited only for a moment.
  for (int i = 1; i <= 20; ++i) {
    records.push_back(Record(0, i, 10, 1));
    clients.push_back(0);
  }
  for (int i = 2; i <= 20; i += 2) {
    records.push_back(Record(0, i, 10, 1));
    clients.push_back(1);
  }
  records.push_back(Record(9, 10, 10'000, 1));
  clients.push_back(2);
  const ServiceGap gap = MeasureServiceGap(records, clients, 4, {.input = 1, .output = 2});
  EXPECT_GT(gap.windows, 10);
  EXPECT_DOUBLE_EQ(gap.largest, 4 * 12);  // Of 8 seconds: 8 answers against 4.
  EXPECT_EQ(MeasureServiceGap(records, clients, 30, {}).windows, 0);
}

TEST(SteadyRate, IsOfTheTimeWhenTheLoopWasFull) {
  std::vector<RequestRecord> records;
  for (int i = 0; i <= 20; ++i) records.push_back(Record(i, i + 0.5, 3, 1));
  records.back().gaps.assign(1000, 1.0F);  // A long tail.
  EXPECT_DOUBLE_EQ(SteadyRate(records, {.input = 1, .output = 1}), 4);
  EXPECT_DOUBLE_EQ(SteadyRate({Record(0, 2, 6, 3)}, {.input = 1, .output = 1}), 9.0 / 4);
  EXPECT_DOUBLE_EQ(SteadyRate({}, {}), 0);
}

TEST(FairShare, FillsUpFromTheLeast) {
  EXPECT_DOUBLE_EQ(FairShare({1, 10, 20}, 15), 7);
  EXPECT_DOUBLE_EQ(FairShare({20, 1, 10}, 25), 14);
  EXPECT_DOUBLE_EQ(FairShare({1, 2, 3}, 100), 3);
  EXPECT_DOUBLE_EQ(FairShare({5, 5}, 6), 3);
  EXPECT_DOUBLE_EQ(FairShare({}, 6), 0);
}

}  // namespace
}  // namespace ropeway
