#include "bench/sameness_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ropeway {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(SamenessReport, OneOutputIsOneLine) {
  AnswerTally tally;
  for (int i = 0; i < 3; ++i) tally.Add({{"a"}, {-0.5}});
  EXPECT_EQ(TallyText(tally),
            "3 answers: 1 distinct output by tokens, 1 with log-probabilities (largest difference "
            "0)\n");
  EXPECT_TRUE(AllTheSame(tally));
  const auto json = TallyJson(tally);
  EXPECT_EQ(json["answers"], 3);
  EXPECT_EQ(json["distinct"], 1);
  EXPECT_EQ(json["distinct_with_logprobs"], 1);
  EXPECT_TRUE(json["first_difference"].is_null());
}

TEST(SamenessReport, SaysHowOftenEachCameAndWhereTheyPart) {
  AnswerTally tally;
  tally.Add({{"One", " two"}, {-0.5, -1.0}});
  tally.Add({{"One", "\n2"}, {-0.5, -1.5}});
  tally.Add({{"One", "\n2"}, {-0.5, -1.5}});
  const std::string text = TallyText(tally);
  EXPECT_THAT(text, HasSubstr("3 answers: 2 distinct outputs by tokens"));
  EXPECT_THAT(text, HasSubstr("outputs 1 and 2 first differ at token 2: \"\\n2\" (log-prob "
                              "-1.500000) and \" two\" (log-prob -1.000000)\n"));
  EXPECT_THAT(text, HasSubstr("     1      2  \"\\n2\"\n     2      1  \" two\"\n"));
  EXPECT_FALSE(AllTheSame(tally));
  const auto json = TallyJson(tally);
  EXPECT_EQ(json["counts"], nlohmann::ordered_json({2, 1}));
  EXPECT_EQ(json["most_frequent"]["tokens"], nlohmann::ordered_json({"One", "\n2"}));
  EXPECT_EQ(json["first_difference"]["position"], 1);
  EXPECT_EQ(json["first_difference"]["logprobs"][1], -1.0);
}

TEST(SamenessReport, EqualTokensWithOtherLogprobsAreNotTheSame) {
  AnswerTally tally;
  tally.Add({{"a"}, {-0.5}});
  tally.Add({{"a"}, {-0.25}});
  EXPECT_FALSE(AllTheSame(tally));
  EXPECT_THAT(TallyText(tally), HasSubstr("1 distinct output by tokens, 2 with log-probabilities "
                                          "(largest difference 0.25)"));
}

TEST(SamenessReport, WhoTellsNoLogprobsIsJudgedByTokens) {
  AnswerTally tally;
  tally.Add({{"a"}, {}});
  tally.Add({{"a"}, {}});
  EXPECT_TRUE(AllTheSame(tally));
  EXPECT_THAT(TallyText(tally), HasSubstr("; log-probabilities were not told"));
  EXPECT_TRUE(TallyJson(tally)["distinct_with_logprobs"].is_null());
}

TEST(SamenessReport, LongListsAreCut) {
  AnswerTally tally;
  for (int i = 0; i < 25; ++i) tally.Add({{std::to_string(i), std::string(500, 'x')}, {}});
  const std::string text = TallyText(tally);
  EXPECT_THAT(text, HasSubstr("and 15 more\n"));
  EXPECT_THAT(text, Not(HasSubstr(std::string(100, 'x'))));
}

}  // namespace
}  // namespace ropeway
