#include "policy/cache_aware.h"

#include <gtest/gtest.h>

#include <vector>

#include "policy/test_sequences.h"

namespace ropeway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(CacheAwarePolicyTest, TheLongestCachedPrefixFirstBehindThoseThatRun) {
  CacheAwarePolicy policy;
  policy.BeginStep({}, {}, seconds(5));
  Sequence cold = WaitingSequence(0);
  Sequence warm = WaitingSequence(1);
  warm.cached_hint = 160;
  Sequence hot = WaitingSequence(2);
  hot.cached_hint = 1600;
  for (Sequence* s : {&cold, &warm, &hot}) s->queued_since = seconds(4);
  EXPECT_LT(policy.RankOf(hot), policy.RankOf(warm));
  EXPECT_LT(policy.RankOf(warm), policy.RankOf(cold));
  const Sequence runs = RunningSequence(7);
  EXPECT_LT(policy.RankOf(runs), policy.RankOf(hot));
  EXPECT_EQ(policy.RankOf(runs), policy.RankOf(RunningSequence(3))) << "these go by arrival";
}

TEST(CacheAwarePolicyTest, WaitingCountsAsCachedTokens) {
  CacheAwarePolicy policy;
  Sequence cold = WaitingSequence(0);
  cold.queued_since = seconds(10);
  Sequence hot = WaitingSequence(1);
  hot.cached_hint = 4096;
  hot.queued_since = seconds(25);
  policy.BeginStep({}, {}, seconds(26));
  EXPECT_LT(policy.RankOf(hot), policy.RankOf(cold)) << "15 seconds later";
  hot.queued_since = seconds(26) + milliseconds(100);
  policy.BeginStep({}, {}, seconds(27));
  EXPECT_LT(policy.RankOf(cold), policy.RankOf(hot)) << "more than 16 seconds later";
  EXPECT_FALSE(policy.MayPreempt(hot, cold));
}

TEST(CacheAwarePolicyTest, TheNewestGivesWay) {
  CacheAwarePolicy policy;
  const Sequence a = RunningSequence(4);
  const Sequence b = RunningSequence(2);
  const std::vector<const Sequence*> candidates = {&a, &b};
  EXPECT_EQ(policy.PickVictim(candidates), 0U);
}

}  // namespace
}  // namespace ropeway
