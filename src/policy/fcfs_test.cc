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
  EXPECT_LT(policy.Rank(first, TimePoint{9}), policy.Rank(second, TimePoint{9}));
  second.preemptions = 5;
  second.state = SequenceState::kPreempted;
  EXPECT_LT(policy.Rank(second, TimePoint{9}), policy.Rank(third, TimePoint{9}))
      << "a preempted sequence keeps its place";
  const std::vector<const Sequence*> candidates = {&first, &third, &second};
  EXPECT_EQ(policy.PickVictim(candidates), 1U);
  const std::vector<const Sequence*> alone = {&first};
  EXPECT_EQ(policy.PickVictim(alone), 0U);
}

}  // namespace
}  // namespace ropeway
