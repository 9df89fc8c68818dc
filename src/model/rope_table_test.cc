#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "model/rope.h"

namespace ropeway::model {
namespace {

constexpr int32_t kPositions = 100;

std::unique_ptr<RopeTable> TableOf(const std::vector<double>& frequencies, int32_t positions) {
  auto table = RopeTable::Make(frequencies, 1.5, positions);
  EXPECT_TRUE(table.ok()) << table.status().message();
  return *std::move(table);
}

TEST(RopeTableTest, RowsAreThoseOfFillRopeRowInAnyOrder) {
  const std::vector<double> frequencies = RopeFrequencies({.dim = 32}, {});
  const auto table = TableOf(frequencies, kPositions);
  for (const int32_t position : {99, 0, 17, 15, 16, 98, 1}) {
    std::vector<float> expected(32);
    FillRopeRow(frequencies, 1.5, position, expected.data());
    EXPECT_EQ(std::memcmp(table->row(position), expected.data(), 32 * sizeof(float)), 0)
        << position;
  }
}

TEST(RopeTableTest, ThreadsThatAskAtOnceGetTheSameRows) {
  const std::vector<double> frequencies = RopeFrequencies({.dim = 64}, {});
  const auto table = TableOf(frequencies, kPositions);
  std::vector<double> sums(4);
  std::vector<std::thread> threads;
  for (double& sum : sums) {
    threads.emplace_back([&table, &sum] {
      for (int32_t position = 0; position < kPositions; ++position) {
        const float* row = table->row(position);
        for (int i = 0; i < 64; ++i) sum += static_cast<double>(row[i]) * (position + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double sum : sums) EXPECT_EQ(sum, sums[0]);
}

TEST(RopeTableTest, ATableOfNothingIsMade) {
  EXPECT_NE(TableOf({}, kPositions), nullptr);
  EXPECT_EQ(RopeTable::Bytes(kPositions, 64), 25600U);
}

}  // namespace
}  // namespace ropeway::model
