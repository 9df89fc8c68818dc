#include "policy/fcfs.h"

#include <gtest/gtest.h>

namespace ropeway {
namespace {

TEST(FcfsPolicyTest, RanksByArrivalAndGivesUpTheNewest) {
  FcfsPolicy policy;
  Sequence first;
  Sequence second;
  Sequence third;
  first.order = 3;
  second.order = 8;
  third.order = 12;
  EXPECT_LT(policy.RankOf(first), policy.RankOf(second));
  second.preemptions = 5;
  second.state = SequenceState::kPreempted;
  EXPECT_LT(policy.RankOf(second), policy.RankOf(third)) << "a preempted sequence keeps its place";
  const std::vector<const Sequence*> candidates = {&first, &third, &second};
  EXPECT_EQ(policy.PickVictim(candidates), 1U);
  const std::vector<const Sequence*> alone = {&first};
  EXPECT_EQ(policy.PickVictim(alone), 0U);
}

}  // namespace
}  // namespace ropeway
