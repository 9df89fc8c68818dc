#include "base/barrier_time.h"

#include <gtest/gtest.h>

#include "base/worker_team.h"

namespace ropeway {
namespace {

TEST(BarrierTimeTest, TakesTimeAndLeavesTheTeamUsable) {
  WorkerTeam team(2);
  EXPECT_GT(BarrierNanoseconds(&team), 0);
  int calls[2] = {};
  team.Run([&](int worker) { ++calls[worker]; });
  EXPECT_EQ(calls[0] + calls[1], 2);
}

TEST(BarrierTimeTest, OneThreadDoesNotWait) {
  EXPECT_LT(BarrierNanoseconds(1), BarrierNanoseconds(2));
}

}  // namespace
}  // namespace ropeway
