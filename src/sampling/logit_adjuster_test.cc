#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "sampling/sampler.h"
#include "sampling/test_values.h"

namespace ropeway::sampling {
namespace {

constexpr int kVocab = 50;

// The definition in sampler.h, one token after the other, each time counted anew.
float NaiveLogit(float logit, TokenId token, const core::SampleSpec& spec,
                 const std::vector<TokenId>& ids, const std::vector<uint32_t>& mask) {
  const SamplingParams& p = spec.params;
  for (const LogitBias& bias : p.logit_bias) {
    if (bias.id == token) logit = logit + bias.bias;
  }
  if (std::find(ids.begin(), ids.end(), token) != ids.end()) {
    logit = logit > 0.0F ? logit / p.repetition_penalty : logit * p.repetition_penalty;
  }
  const auto times = std::count(ids.begin() + spec.prompt_len, ids.end(), token);
  if (times > 0) {
    const float frequency = p.frequency_penalty * static_cast<float>(times);
    logit = (logit - frequency) - p.presence_penalty;
  }
  const auto generated = static_cast<int32_t>(ids.size()) - spec.prompt_len;
  const auto ends = [&](TokenId id) {
    return std::find(spec.end_ids.begin(), spec.end_ids.end(), id) != spec.end_ids.end();
  };
  bool may_go_on = mask.empty();
  for (TokenId id = 0; id < kVocab; ++id) may_go_on |= Allows(mask, id) && !ends(id);
  if (ends(token) && generated < p.min_tokens && may_go_on) return -kInf;
  return mask.empty() || Allows(mask, token) ? logit : -kInf;
}

std::vector<float> Adjusted(const std::vector<float>& logits, const core::SampleSpec& spec,
                            const std::vector<TokenId>& ids,
                            const std::vector<uint32_t>& mask = {}) {
  LogitAdjuster adjuster(static_cast<int>(logits.size()));
  const auto row = adjuster.Adjust(logits, spec, ids, static_cast<int64_t>(ids.size()), mask);
  return {row.begin(), row.end()};
}

class RandomCase {
 public:
  explicit RandomCase(uint32_t seed) : random_(seed) {
    for (int i = 0; i < kVocab; ++i) logits.push_back(Uniform(-12, 12));
    for (int i = Pick(60); i >= 0; --i) ids.push_back(Pick(kVocab));
    spec.prompt_len = Pick(static_cast<int>(ids.size()) + 1);
    if (Pick(2) != 0) spec.params.repetition_penalty = Uniform(0.1F, 3);
    if (Pick(2) != 0) spec.params.presence_penalty = Uniform(-2, 2);
    if (Pick(2) != 0) spec.params.frequency_penalty = Uniform(-2, 2);
    if (Pick(2) != 0) {
      for (TokenId id = Pick(5); id < kVocab; id += 1 + Pick(20)) {
        spec.params.logit_bias.push_back({id, Uniform(-100, 100)});
      }
    }
    spec.params.min_tokens = Pick(2) * Pick(60);
    for (int i = Pick(4); i > 0; --i) spec.end_ids.push_back(Pick(kVocab));
    if (Pick(2) != 0) mask = RandomMask(1 + random_() % 3, &random_);
    if (Pick(8) == 0) {
      mask = {0};
      for (const TokenId id : spec.end_ids) Allow(id, &mask);
    }
  }

  int Pick(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }
  float Uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(random_() % 10007) / 10007.0F;
  }

  std::vector<float> logits;
  std::vector<TokenId> ids;
  core::SampleSpec spec;
  std::vector<uint32_t> mask;

 private:
  std::mt19937 random_;
};

TEST(LogitAdjusterTest, IsTheDefinitionOnRandomRowsToTheBit) {
  LogitAdjuster adjuster(kVocab);  // One for all: nothing of a call is left for the next.
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const RandomCase c(seed);
    const auto row =
        adjuster.Adjust(c.logits, c.spec, c.ids, static_cast<int64_t>(c.ids.size()), c.mask);
    for (TokenId id = 0; id < kVocab; ++id) {
      const auto i = static_cast<size_t>(id);
      const float expected = NaiveLogit(c.logits[i], id, c.spec, c.ids, c.mask);
      ASSERT_EQ(std::bit_cast<uint32_t>(row[i]), std::bit_cast<uint32_t>(expected))
          << "seed " << seed << ", token " << id;
    }
  }
}

TEST(LogitAdjusterTest, ARowThatNothingChangesIsNotCopied) {
  const std::vector<float> logits(kVocab, 1.0F);
  LogitAdjuster adjuster(kVocab);
  core::SampleSpec spec;
  spec.end_ids = {3};  // Only min_tokens makes use of them.
  const std::vector<TokenId> ids = {1, 2, 3};
  EXPECT_EQ(adjuster.Adjust(logits, spec, ids, 3, {}).data(), logits.data());
  EXPECT_FALSE(LogitAdjuster::NeedsIds(spec.params));
  spec.params.presence_penalty = -0.5F;
  EXPECT_TRUE(LogitAdjuster::NeedsIds(spec.params));
  EXPECT_NE(adjuster.Adjust(logits, spec, ids, 3, {}).data(), logits.data());
}

TEST(LogitAdjusterTest, EachParameterDoesWhatItsCommentSays) {
  const std::vector<float> logits = {2.0F, -2.0F, 4.0F, 0.0F};
  core::SampleSpec spec;
  spec.prompt_len = 2;
  const std::vector<TokenId> ids = {0, 1, 2, 2, 1};  // Generated: 2, 2, 1.
  spec.params.repetition_penalty = 2.0F;
  EXPECT_EQ(Adjusted(logits, spec, ids), std::vector<float>({1.0F, -4.0F, 2.0F, 0.0F}));
  spec.params.repetition_penalty = 1.0F;
  spec.params.presence_penalty = 0.5F;
  EXPECT_EQ(Adjusted(logits, spec, ids), std::vector<float>({2.0F, -2.5F, 3.5F, 0.0F}));
  spec.params.presence_penalty = 0.0F;
  spec.params.frequency_penalty = -1.0F;
  EXPECT_EQ(Adjusted(logits, spec, ids), std::vector<float>({2.0F, -1.0F, 6.0F, 0.0F}));
  spec.params.frequency_penalty = 0.0F;
  spec.params.logit_bias = {{3, 100.0F}, {0, -1.0F}};
  EXPECT_EQ(Adjusted(logits, spec, ids), std::vector<float>({1.0F, -2.0F, 4.0F, 100.0F}));
  spec.params.logit_bias.clear();
  spec.end_ids = {1, 2};
  spec.params.min_tokens = 4;  // Three were generated.
  EXPECT_EQ(Adjusted(logits, spec, ids), std::vector<float>({2.0F, -kInf, -kInf, 0.0F}));
  spec.params.min_tokens = 3;
  EXPECT_EQ(Adjusted(logits, spec, ids), logits);
}

TEST(LogitAdjusterTest, ABiasComesBeforeAPenalty) {
  core::SampleSpec spec;
  spec.params.logit_bias = {{0, -3.0F}};  // Turns the logit's sign, and so the penalty's way.
  spec.params.repetition_penalty = 2.0F;
  EXPECT_EQ(Adjusted({2.0F}, spec, {0}), std::vector<float>({-2.0F}));
}

TEST(LogitAdjusterTest, ExtremesAreDefined) {
  core::SampleSpec spec;
  spec.params.repetition_penalty = 1e-40F;
  spec.params.frequency_penalty = 2.0F;
  const std::vector<TokenId> ids(100, 0);
  EXPECT_EQ(Adjusted({3.0F}, spec, ids)[0], kInf);
  EXPECT_EQ(Adjusted({-kInf}, spec, ids)[0], -kInf);
  EXPECT_TRUE(std::isnan(Adjusted({kNan}, spec, ids)[0]));
  spec.params.repetition_penalty = 10.0F;
  EXPECT_EQ(Adjusted({-3e38F}, spec, ids)[0], -kInf);
  spec = {};
  spec.params.logit_bias = {{0, -kInf}, {1, 1.0F}};
  EXPECT_EQ(Adjusted({1.0F, 1.0F}, spec, {}), std::vector<float>({-kInf, 2.0F}));
}

TEST(LogitAdjusterTest, IdsBeyondTheVocabularyHaveNoEffect) {
  core::SampleSpec spec;
  spec.params.logit_bias = {{-1, 5.0F}, {2, 5.0F}, {1 << 30, 5.0F}};
  spec.params.repetition_penalty = 2.0F;
  spec.params.min_tokens = 100;
  spec.end_ids = {-1, 2};
  spec.prompt_len = 2;
  EXPECT_EQ(Adjusted({4.0F, 4.0F}, spec, {-1, 2, 1 << 30, 1}), std::vector<float>({4.0F, 2.0F}));
  spec.prompt_len = 100;  // Longer than the ids: none of them is a generated one.
  EXPECT_EQ(Adjusted({4.0F, 4.0F}, spec, {1}), std::vector<float>({4.0F, 2.0F}));
}

TEST(LogitAdjusterTest, AMaskOfAnyLengthAppliesToARowOfAnyLength) {
  std::mt19937 random(9);
  for (size_t vocab = 1; vocab < 200; ++vocab) {
    std::vector<float> logits(vocab);
    for (float& l : logits) l = static_cast<float>(random() % 1000) - 500.0F;
    logits[random() % vocab] = kNan;
    const auto mask = RandomMask(1 + random() % 8, &random);
    const auto row = Adjusted(logits, {}, {}, mask);
    ASSERT_EQ(row.size(), vocab);
    for (size_t i = 0; i < vocab; ++i) {
      const float expected = Allows(mask, static_cast<TokenId>(i)) ? logits[i] : -kInf;
      ASSERT_EQ(std::bit_cast<uint32_t>(row[i]), std::bit_cast<uint32_t>(expected))
          << vocab << " logits, " << mask.size() << " words, token " << i;
    }
  }
}

TEST(LogitAdjusterTest, AMaskComesLast) {
  core::SampleSpec spec;
  spec.params.logit_bias = {{0, kInf}, {1, 100.0F}};
  EXPECT_EQ(Adjusted({1.0F, 1.0F, 1.0F}, spec, {}, {0b110}),
            std::vector<float>({-kInf, 101.0F, 1.0F}));
}

TEST(LogitAdjusterTest, MinTokensForbidsNoEndThatIsAllThatTheMaskAllows) {
  core::SampleSpec spec;
  spec.params.min_tokens = 10;
  spec.end_ids = {1, 2, 2, 40};
  const std::vector<float> logits = {1.0F, 2.0F, 3.0F};
  EXPECT_EQ(Adjusted(logits, spec, {}, {0b110}), std::vector<float>({-kInf, 2.0F, 3.0F}));
  EXPECT_EQ(Adjusted(logits, spec, {}, {0b100}), std::vector<float>({-kInf, -kInf, 3.0F}));
  EXPECT_EQ(Adjusted(logits, spec, {}, {0b111}), std::vector<float>({1.0F, -kInf, -kInf}));
  // Bits beyond the vocabulary are no tokens.
  EXPECT_EQ(Adjusted(logits, spec, {}, {0b1110, 1}), std::vector<float>({-kInf, 2.0F, 3.0F}));
}

}  // namespace
}  // namespace ropeway::sampling
