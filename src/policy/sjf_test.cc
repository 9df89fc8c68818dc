#include "policy/sjf.h"

#include <gtest/gtest.h>

#include <vector>

#include "policy/test_sequences.h"

namespace ropeway {
namespace {

TEST(SjfPolicyTest, RanksByWhatIsStillToCompute) {
  SjfPolicy policy;
  const Sequence small = WaitingSequence(5, 20, 10);
  const Sequence large = WaitingSequence(1, 200, 10);
  Sequence cached = WaitingSequence(9, 200, 10);
  cached.cached_hint = 192;
  EXPECT_LT(policy.RankOf(small), policy.RankOf(large));
  EXPECT_LT(policy.RankOf(cached), policy.RankOf(small)) << "8 tokens of 200 are left";
  const Sequence nearly_done = RunningSequence(12, 200, 10, 9);
  EXPECT_EQ(policy.RankOf(nearly_done).keys[0], 2) << "its last id and one more token";
  // The hint is of the time when it waited: what counts is what it has computed.
  Sequence half = WaitingSequence(3, 200, 10);
  half.state = SequenceState::kPrefilling;
  half.computed = 100;
  half.cached_hint = 192;
  EXPECT_EQ(policy.RankOf(half).keys[0], 110);
}

TEST(SjfPolicyTest, LearnsFromThoseThatCompletedOnly) {
  SjfPolicy policy;
  const Sequence asks = WaitingSequence(0, 10, 1000);
  EXPECT_EQ(policy.RankOf(asks).keys[0], 10 + 128);
  policy.OnFinished(RunningSequence(1, 10, 1000, 700), false);
  EXPECT_EQ(policy.RankOf(asks).keys[0], 10 + 128) << "a cancelled one says nothing";
  policy.OnFinished(RunningSequence(1, 10, 1000, 40), true);
  EXPECT_EQ(policy.RankOf(asks).keys[0], 10 + 40);
}

TEST(SjfPolicyTest, TheLongestGivesWayAndOfEqualOnesTheNewest) {
  SjfPolicy policy;
  const Sequence a = RunningSequence(1, 10, 50, 5);
  const Sequence b = RunningSequence(2, 10, 90, 5);
  const Sequence c = RunningSequence(7, 10, 90, 5);
  const Sequence d = RunningSequence(4, 10, 90, 5);
  const std::vector<const Sequence*> candidates = {&a, &b, &c, &d};
  EXPECT_EQ(policy.PickVictim(candidates), 2U);
  EXPECT_FALSE(policy.MayPreempt(a, b));
}

}  // namespace
}  // namespace ropeway
