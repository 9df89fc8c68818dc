#include "policy/length_balance.h"

#include <gtest/gtest.h>

#include <vector>

#include "policy/test_sequences.h"

namespace ropeway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LengthBalancePolicyTest, WaitingOnesRankByTheirDistanceFromThoseThatRun) {
  LengthBalancePolicy policy;
  Sequence short_one = RunningSequence(0, 90, 64, 10);
  Sequence long_one = RunningSequence(1, 290, 64, 10);  // Mean length 200.
  Sequence near = WaitingSequence(9, 210);
  Sequence far_below = WaitingSequence(2, 25);
  Sequence far_above = WaitingSequence(3, 3200);
  std::vector<Sequence*> queue = {&far_below, &far_above, &near};
  std::vector<Sequence*> running = {&short_one, &long_one};
  policy.BeginStep(queue, running, seconds(0));
  EXPECT_LT(policy.RankOf(short_one), policy.RankOf(near));
  EXPECT_EQ(policy.RankOf(short_one), policy.RankOf(long_one)) << "running ones go by arrival";
  EXPECT_LT(policy.RankOf(near), policy.RankOf(far_below));
  EXPECT_LT(policy.RankOf(far_below), policy.RankOf(far_above)) << "3 doublings against 4";
}

TEST(LengthBalancePolicyTest, WithNobodyRunningTheOldestIsTheReference) {
  LengthBalancePolicy policy;
  Sequence oldest = WaitingSequence(1, 1000);
  Sequence like_it = WaitingSequence(5, 1020);
  Sequence other = WaitingSequence(2, 100);
  std::vector<Sequence*> queue = {&other, &like_it, &oldest};
  policy.BeginStep(queue, {}, seconds(0));
  EXPECT_EQ(policy.RankOf(oldest).keys[0], 0);
  EXPECT_EQ(policy.RankOf(like_it).keys[0], 0) << "alike: the arrival decides";
  EXPECT_LT(policy.RankOf(like_it), policy.RankOf(other));
}

TEST(LengthBalancePolicyTest, WaitingMakesUpForTheDistance) {
  LengthBalancePolicy policy;
  Sequence runs = RunningSequence(0, 64, 64, 64);  // 128.
  Sequence odd = WaitingSequence(1, 1 << 17);      // 10 doublings away.
  odd.queued_since = seconds(100);
  Sequence like = WaitingSequence(2, 128);
  std::vector<Sequence*> queue = {&odd, &like};
  std::vector<Sequence*> running = {&runs};
  for (const milliseconds waited : {milliseconds(0), milliseconds(9500)}) {
    like.queued_since = seconds(100) + waited;
    policy.BeginStep(queue, running, like.queued_since);
    EXPECT_LT(policy.RankOf(like), policy.RankOf(odd)) << waited.count();
  }
  policy.BeginStep(queue, running, seconds(110));
  EXPECT_EQ(policy.RankOf(odd), policy.RankOf(like)) << "from now on the arrival decides";
  policy.BeginStep(queue, running, seconds(1000));
  EXPECT_EQ(policy.RankOf(odd), policy.RankOf(like)) << "age never beats an older alike one";
}

TEST(LengthBalancePolicyTest, TheNewestGivesWay) {
  LengthBalancePolicy policy;
  const Sequence a = RunningSequence(4);
  const Sequence b = RunningSequence(9);
  const Sequence c = RunningSequence(6);
  const std::vector<const Sequence*> candidates = {&a, &b, &c};
  EXPECT_EQ(policy.PickVictim(candidates), 1U);
}

}  // namespace
}  // namespace ropeway
