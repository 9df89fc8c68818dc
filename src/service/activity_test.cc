#include "service/activity.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ropeway::service {
namespace {

TEST(EndedRequests, KeepsTheLastOnes) {
  EndedRequests all;
  for (RequestId id = 1; id <= 300; ++id) {
    EndedRequest ended;
    ended.id = id;
    all.Add(ended);
  }
  const std::vector<EndedRequest> kept = all.After(0);
  ASSERT_EQ(kept.size(), EndedRequests::kMost);
  EXPECT_EQ(kept.back().id, 300U);
  EXPECT_EQ(kept.back().number, 300U);
  EXPECT_EQ(all.After(298).size(), 2U);
  EXPECT_TRUE(all.After(300).empty());
}

TEST(EndedRequests, AreBoundedByBytes) {
  EndedRequests all;
  EndedRequest ended;
  ended.tenant = std::string(EndedRequests::kMostBytes / 4, 't');
  for (int i = 0; i < 10; ++i) all.Add(ended);
  EXPECT_EQ(all.After(0).size(), 3U);
}

core::StepTrace StepOf(uint64_t number, size_t items) {
  core::StepTrace step;
  step.step = number;
  step.content.items.resize(items);
  return step;
}

TEST(StepLog, HasTheLastStepsWhileItIsWatched) {
  StepLog log;
  log.Add(StepOf(1, 1));
  EXPECT_TRUE(log.After(0).empty());
  log.set_watched(true);
  for (uint64_t i = 1; i <= 200; ++i) log.Add(StepOf(i, 1));
  EXPECT_EQ(log.After(0).size(), StepLog::kMostSteps);
  ASSERT_EQ(log.After(199).size(), 1U);
  EXPECT_EQ(log.After(199)[0].step, 200U);
  log.set_watched(false);
  EXPECT_TRUE(log.After(0).empty());
}

TEST(StepLog, IsBoundedByItems) {
  StepLog log;
  log.set_watched(true);
  for (uint64_t i = 1; i <= 20; ++i) log.Add(StepOf(i, StepLog::kMostItems / 4));
  EXPECT_EQ(log.After(0).size(), 4U);
  log.Add(StepOf(21, 2 * StepLog::kMostItems));  // One alone is kept, however large.
  EXPECT_EQ(log.After(0).size(), 1U);
}

}  // namespace
}  // namespace ropeway::service
