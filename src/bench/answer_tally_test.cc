#include "bench/answer_tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ropeway {
namespace {

using testing::ElementsAre;

TEST(AnswerTally, OneAnswerManyTimesIsOneOutput) {
  AnswerTally tally;
  for (int i = 0; i < 5; ++i) tally.Add({{"a", "b"}, {-0.5, -1.25}});
  EXPECT_EQ(tally.answers(), 5);
  EXPECT_EQ(tally.distinct(), 1);
  EXPECT_EQ(tally.distinct_with_logprobs(), 1);
  EXPECT_TRUE(tally.has_logprobs());
  EXPECT_EQ(tally.LargestLogprobDifference(), 0.0);
  EXPECT_FALSE(tally.FirstDifference().has_value());
}

TEST(AnswerTally, CountsOutputsThatDifferMostFrequentFirst) {
  AnswerTally tally;
  tally.Add({{"a", "b", "c"}, {-0.5, -1.0, -2.0}});
  tally.Add({{"a", "x", "c"}, {-0.5, -1.5, -9.0}});
  tally.Add({{"a", "x", "c"}, {-0.5, -1.5, -9.0}});
  tally.Add({{"a", "b"}, {-0.5, -1.0}});  // One that ended before.
  EXPECT_EQ(tally.distinct(), 3);
  const auto outputs = tally.ByTokens();
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_EQ(outputs[0].count, 2);
  EXPECT_THAT(outputs[0].answer.tokens, ElementsAre("a", "x", "c"));
  EXPECT_THAT(outputs[1].answer.tokens, ElementsAre("a", "b", "c"));
  const auto difference = tally.FirstDifference();
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->position, 1U);
  EXPECT_EQ(difference->first, "x");
  EXPECT_EQ(difference->second, "b");
  EXPECT_EQ(difference->first_logprob, -1.5);
  EXPECT_EQ(difference->second_logprob, -1.0);
  // What comes after the parting is of other texts: it is no difference of log-probs.
  EXPECT_EQ(tally.LargestLogprobDifference(), 0.0);
}

TEST(AnswerTally, ALastBitOfALogprobIsSeen) {
  AnswerTally tally;
  const double logprob = -0.123456;
  tally.Add({{"a"}, {logprob}});
  tally.Add({{"a"}, {std::nextafter(logprob, 0.0)}});
  tally.Add({{"a"}, {logprob}});
  EXPECT_EQ(tally.distinct(), 1);
  EXPECT_EQ(tally.distinct_with_logprobs(), 2);
  EXPECT_THAT(tally.LogprobCounts(), ElementsAre(2, 1));
  EXPECT_GT(tally.LargestLogprobDifference(), 0.0);
  EXPECT_LT(tally.LargestLogprobDifference(), 1e-15);
}

TEST(AnswerTally, NotANumberIsItself) {
  AnswerTally tally;
  for (int i = 0; i < 2; ++i) tally.Add({{"a"}, {std::nan("")}});
  EXPECT_EQ(tally.distinct_with_logprobs(), 1);
}

TEST(AnswerTally, AnAnswerThatEndsEarlyDiffersWhereItEnds) {
  AnswerTally tally;
  tally.Add({{"a", "b"}, {}});
  tally.Add({{"a"}, {}});
  const auto difference = tally.FirstDifference();
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->position, 1U);
  EXPECT_EQ(difference->first, "b");
  EXPECT_EQ(difference->second, "");
  EXPECT_FALSE(difference->first_logprob.has_value());
  EXPECT_FALSE(tally.has_logprobs());
}

}  // namespace
}  // namespace ropeway
