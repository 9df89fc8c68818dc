// Rows of the vocabulary that are no token: nothing draws or lists them, and the others' log-probs
// are as if they were not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "executor/test_runner.h"

namespace ropeway::executor::testing {
namespace {

// The tokens that the crowd draws most, and some that it does not.
std::vector<TokenId> LikelyIds(const std::vector<Sequence>& crowd) {
  std::set<TokenId> ids = {0, model::kTinyVocab - 1, 17};
  for (const Outcome& outcome : RunTogether(TinyModel(), {}, crowd)) {
    for (const core::Sampled& s : outcome.sampled) {
      if (s.token % 2 == 0) ids.insert(s.token);
    }
  }
  return {ids.begin(), ids.end()};
}

bool Holds(const std::vector<TokenId>& ids, TokenId id) {
  return std::binary_search(ids.begin(), ids.end(), id);
}

// All that can make a difference: greedy, sampled, biased, penalised, with log-probs and without.
std::vector<Sequence> ManyKinds() {
  std::vector<Sequence> crowd = Crowd();
  for (size_t i = 0; i < crowd.size(); ++i) {
    core::SampleSpec& spec = crowd[i].spec;
    if (i % 3 == 0) spec.params.temperature = 0;
    if (i % 4 == 0) spec.num_logprobs = -1;
    if (i % 4 == 1) spec.num_logprobs = model::kTinyVocab;
    if (i % 4 == 2) spec.params.repetition_penalty = 1.3F;
    if (i % 5 == 2) spec.params.typical_p = 0.9F;
    if (i % 2 == 1) spec.num_prompt_logprobs = 5;
  }
  return crowd;
}

TEST(AbsentRowsTest, AreNeverDrawnNorListed) {
  std::vector<Sequence> crowd = ManyKinds();
  How how;
  how.absent = LikelyIds(crowd);
  ASSERT_GT(how.absent.size(), 20U);
  for (size_t i = 0; i < crowd.size(); i += 5) {
    for (const TokenId id : how.absent) crowd[i].spec.params.logit_bias.push_back({id, 100.0F});
  }
  const size_t tokens = static_cast<size_t>(model::kTinyVocab) - how.absent.size();
  const auto outcomes = RunTogether(TinyModel(), how, crowd);
  for (size_t i = 0; i < crowd.size(); ++i) {
    for (const core::Sampled& s : outcomes[i].sampled) {
      EXPECT_FALSE(s.invalid);
      EXPECT_FALSE(Holds(how.absent, s.token)) << i;
      double sum = 0;
      for (const TokenLogprob& top : s.top_logprobs) {
        EXPECT_FALSE(Holds(how.absent, top.id)) << i;
        sum += std::exp(double{top.logprob});
      }
      if (crowd[i].spec.num_logprobs != model::kTinyVocab) continue;
      EXPECT_EQ(s.top_logprobs.size(), tokens);
      EXPECT_NEAR(sum, 1.0, 1e-4);
    }
    for (const core::Scored& s : outcomes[i].scored) {
      for (const TokenLogprob& top : s.top_logprobs) EXPECT_FALSE(Holds(how.absent, top.id)) << i;
    }
  }
}

// A row exists for such an id of a prompt; but the model cannot have said it.
TEST(AbsentRowsTest, APromptMayHaveThem) {
  Sequence s = MakeSequence(12, 3, 8, 0.0F);
  s.spec.num_prompt_logprobs = 2;
  How how;
  how.absent = {s.ids[5]};
  const Outcome outcome = RunTogether(TinyModel(), how, {s})[0];
  ASSERT_EQ(outcome.scored.size(), 11U);
  for (const core::Scored& scored : outcome.scored) {
    EXPECT_EQ(std::isinf(scored.logprob), scored.token == s.ids[5]);
    EXPECT_FALSE(std::isnan(scored.logprob));
  }
}

TEST(AbsentRowsTest, NothingAroundASequenceChangesItsTokens) {
  const auto crowd = ManyKinds();
  How how;
  how.absent = LikelyIds(crowd);
  const auto alone = RunAlone(TinyModel(), how, crowd);
  for (const int threads : {1, 3}) {
    how.threads = threads;
    how.chunk = 7;
    how.max_rows = 160;
    ExpectSame(alone, RunTogether(TinyModel(), how, crowd), std::to_string(threads) + " threads");
  }
  how.kernels = &kernels::kReferenceKernels;
  ExpectSame(alone, RunTogether(TinyModel(), how, crowd), "reference kernels");
}

TEST(AbsentRowsTest, OrderRepetitionsAndForeignIdsDoNotMatter) {
  const auto crowd = ManyKinds();
  How how;
  how.absent = {3, 5};
  const auto expected = RunTogether(TinyModel(), how, crowd);
  how.absent = {5, 3, -1, model::kTinyVocab, 3, std::numeric_limits<TokenId>::max()};
  ExpectSame(expected, RunTogether(TinyModel(), how, crowd), "unordered");
}

}  // namespace
}  // namespace ropeway::executor::testing
