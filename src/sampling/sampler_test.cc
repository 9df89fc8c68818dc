#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "sampling/test_values.h"

namespace ropeway::sampling {
namespace {

core::SampleSpec Spec(float temperature, int32_t top_k = 0, float top_p = 1.0F, float min_p = 0.0F,
                      uint64_t seed = 7) {
  core::SampleSpec spec;
  spec.params.temperature = temperature;
  spec.params.top_k = top_k;
  spec.params.top_p = top_p;
  spec.params.min_p = min_p;
  spec.seed = seed;
  return spec;
}

core::Sampled SampleOnce(const std::vector<float>& logits, const core::SampleSpec& spec,
                         int64_t position = 0,
                         const kernels::Kernels* kernels = &kernels::kReferenceKernels) {
  Sampler sampler(kernels, static_cast<int>(logits.size()));
  core::Sampled out;
  out.top_logprobs.resize(static_cast<size_t>(std::max(spec.num_logprobs, 0)));
  sampler.Sample(logits, spec, {}, position, {}, &out);
  return out;
}

// How often each token is drawn at positions [0, draws).
std::vector<int> Histogram(const std::vector<float>& logits, const core::SampleSpec& spec,
                           int draws) {
  Sampler sampler(&kernels::kReferenceKernels, static_cast<int>(logits.size()));
  std::vector<int> counts(logits.size());
  core::Sampled out;
  for (int position = 0; position < draws; ++position) {
    sampler.Sample(logits, spec, {}, position, {}, &out);
    ++counts.at(static_cast<size_t>(out.token));
  }
  return counts;
}

// Pearson's statistic of `counts` against `p`; infinite where a token of probability 0 was drawn.
double ChiSquare(const std::vector<int>& counts, const std::vector<double>& p) {
  const double draws = std::accumulate(counts.begin(), counts.end(), 0.0);
  double chi2 = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * draws;
    if (expected > 0) {
      chi2 += (counts[i] - expected) * (counts[i] - expected) / expected;
    } else if (counts[i] > 0) {
      return kInf;
    }
  }
  return chi2;
}

std::vector<double> Softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  for (float l : logits) p.push_back(std::exp(l / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

// Logits that differ enough for a test and not too much for its statistics.
std::vector<float> SomeLogits(int n) {
  std::vector<float> logits;
  for (int i = 0; i < n; ++i) logits.push_back(static_cast<float>((i * 37) % 11) * 0.3F);
  return logits;
}

TEST(SamplerTest, GreedyTakesTheHighestAndTheLowestIdOfEquals) {
  EXPECT_EQ(SampleOnce({0.0F, 3.0F, 1.0F, 3.0F}, Spec(0)).token, 1);
  EXPECT_EQ(SampleOnce({-5.0F, -5.0F}, Spec(0)).token, 0);
}

TEST(SamplerTest, NanIsLeastLikely) {
  EXPECT_EQ(SampleOnce({kNan, 1.0F, kNan, 2.0F}, Spec(0)).token, 3);
  const auto counts = Histogram({kNan, 1.0F, kNan, 1.0F}, Spec(1), 200);
  EXPECT_EQ(counts[0] + counts[2], 0);
  EXPECT_GT(counts[1], 50);
  EXPECT_GT(counts[3], 50);
  core::SampleSpec spec = Spec(1, 3, 0.9F);
  spec.num_logprobs = 4;
  const core::Sampled out = SampleOnce({kNan, 1.0F, kNan, 2.0F}, spec);
  EXPECT_EQ(out.top_logprobs[0].id, 3);
  EXPECT_EQ(out.top_logprobs[1].id, 1);
  EXPECT_EQ(out.top_logprobs[2].id, 0);
  EXPECT_EQ(out.top_logprobs[3].id, 2);
}

TEST(SamplerTest, UnusableLogitsStillGiveAToken) {
  core::SampleSpec typical = Spec(1);
  typical.params.typical_p = 0.5F;
  for (const core::SampleSpec& spec :
       {Spec(0), Spec(1), Spec(1, 2), Spec(1, 0, 0.5F, 0.5F), typical}) {
    EXPECT_EQ(SampleOnce({kNan, kNan, kNan}, spec).token, 0);
    EXPECT_TRUE(SampleOnce({kNan, kNan, kNan}, spec).invalid);
    EXPECT_EQ(SampleOnce({-kInf, -kInf, -kInf}, spec).token, 0);
    EXPECT_TRUE(SampleOnce({-kInf, kNan, -kInf}, spec).invalid);
    EXPECT_FALSE(SampleOnce({-kInf, kInf, kNan}, spec).invalid);
    EXPECT_FALSE(SampleOnce({-kInf, -3e38F, -kInf}, spec).invalid);
    EXPECT_EQ(SampleOnce({0.0F, kInf, kInf}, spec).token, 1);
    EXPECT_EQ(SampleOnce({-kInf, 0.0F, -kInf}, spec).token, 1);
    EXPECT_EQ(SampleOnce({1.0F}, spec).token, 0);
  }
}

TEST(SamplerTest, DrawsFollowTheTemperedDistribution) {
  const auto logits = SomeLogits(30);
  for (float temperature : {0.5F, 1.0F, 2.0F}) {
    const auto counts = Histogram(logits, Spec(temperature), 30000);
    const double chi2 = ChiSquare(counts, Softmax(logits, temperature));
    EXPECT_LT(chi2, 58.3) << temperature;  // 29 degrees of freedom: probability 0.001.
    EXPECT_GT(chi2, 8.0) << temperature;
  }
}

// Large enough that sums go by blocks, and the sorted order by several parts.
TEST(SamplerTest, SortedAndUnsortedOrderHaveTheSameDistribution) {
  const auto logits = SomeLogits(3000);
  std::vector<double> by_value(11);
  const auto p = Softmax(logits, 1.0);
  const auto fold = [](const auto& of, auto* sums) {
    for (size_t i = 0; i < of.size(); ++i) (*sums)[(i * 37) % 11] += of[i];
  };
  fold(p, &by_value);
  for (const core::SampleSpec& spec : {Spec(1), Spec(1, 2999), Spec(1, 0, 0.9999F)}) {
    std::vector<int> counts(11);
    fold(Histogram(logits, spec, 1000), &counts);
    EXPECT_LT(ChiSquare(counts, by_value), 29.6);  // 10 degrees of freedom: probability 0.001.
  }
}

TEST(SamplerTest, TopKKeepsTheFirstOfTheOrder) {
  const std::vector<float> logits = {1.0F, 2.0F, 2.0F, 0.0F, 2.0F};
  EXPECT_EQ(SampleOnce(logits, Spec(2, 1)).token, 1);
  const auto counts = Histogram(logits, Spec(1, 2), 400);
  EXPECT_EQ(counts[1] + counts[2], 400);  // Of three equals, the two lowest ids.
  EXPECT_GT(counts[1], 130);
  EXPECT_GT(counts[2], 130);
  EXPECT_GT(Histogram(logits, Spec(2, -1), 2000)[3], 0);
}

TEST(SamplerTest, TopPKeepsTheShortestBeginningThatReachesIt) {
  // Probabilities 0.4, 0.3, 0.2, 0.1 in another order of ids.
  const std::vector<float> logits = {std::log(2.0F), std::log(4.0F), std::log(1.0F),
                                     std::log(3.0F)};
  const auto kept = [&](const core::SampleSpec& spec) {
    std::vector<int> ids;
    const auto counts = Histogram(logits, spec, 1000);
    for (int i = 0; i < 4; ++i) {
      if (counts[static_cast<size_t>(i)] > 0) ids.push_back(i);
    }
    return ids;
  };
  EXPECT_EQ(kept(Spec(1, 0, 1e-6F)), std::vector<int>({1}));
  EXPECT_EQ(kept(Spec(1, 0, 0.39F)), std::vector<int>({1}));
  EXPECT_EQ(kept(Spec(1, 0, 0.41F)), std::vector<int>({1, 3}));
  EXPECT_EQ(kept(Spec(1, 0, 0.75F)), std::vector<int>({0, 1, 3}));
  EXPECT_EQ(kept(Spec(1, 0, 0.95F)), std::vector<int>({0, 1, 2, 3}));
  // top_k leaves 4/7 and 3/7: the first alone reaches 0.55.
  EXPECT_EQ(kept(Spec(1, 2, 0.55F)), std::vector<int>({1}));
  EXPECT_EQ(kept(Spec(1, 2, 0.6F)), std::vector<int>({1, 3}));
}

TEST(SamplerTest, MinPDropsWhatIsFarBelowTheBest) {
  const std::vector<float> logits = {0.0F, std::log(0.5F), std::log(0.2F), 0.0F};
  for (const core::SampleSpec& base : {Spec(1), Spec(1, 0, 0.99999F)}) {
    core::SampleSpec spec = base;
    spec.params.min_p = 0.3F;
    auto counts = Histogram(logits, spec, 500);
    EXPECT_EQ(counts[2], 0);
    EXPECT_GT(counts[1], 0);
    spec.params.min_p = 1.0F;
    counts = Histogram(logits, spec, 500);
    EXPECT_EQ(counts[1] + counts[2], 0);
    EXPECT_GT(counts[0], 150);
    EXPECT_GT(counts[3], 150);
  }
}

// exp() gives the larger of these two logits the smaller weight, by its last bit. min_p = 1 must
// then leave the one that top_p left, not the token 0 that typical_p dropped.
TEST(SamplerTest, MinPLeavesOneOfWhatTopPLeft) {
  const std::vector<float> logits = {0.0F, -0.249998569F, -0.249998584F};
  std::vector<float> weights(3);
  kernels::kReferenceKernels.exp_weights(logits.data(), 3, 0.0F, 1.0F, -87.0F, weights.data());
  ASSERT_LT(weights[1], weights[2]);
  core::SampleSpec spec = Spec(1, 0, 0.1F, 1.0F);
  spec.params.typical_p = 0.5F;
  const std::vector<int> counts = Histogram(logits, spec, 50);
  EXPECT_EQ(counts, std::vector<int>({0, 50, 0}));
}

TEST(SamplerTest, EqualLogitsAreEquallyLikely) {
  const std::vector<float> logits(16, 1.5F);
  const std::vector<double> even(16, 1.0 / 16);
  EXPECT_LT(ChiSquare(Histogram(logits, Spec(1), 8000), even), 37.7);
  EXPECT_LT(ChiSquare(Histogram(logits, Spec(1, 0, 0.99F), 8000), even), 37.7);
}

TEST(SamplerTest, TinyTemperatureIsGreedy) {
  const auto logits = SomeLogits(100);
  const TokenId best = SampleOnce(logits, Spec(0)).token;
  std::vector<float> unique = logits;
  unique[static_cast<size_t>(best)] += 0.01F;
  for (float temperature : {1e-6F, 1e-30F, std::numeric_limits<float>::denorm_min()}) {
    for (const core::SampleSpec& spec : {Spec(temperature), Spec(temperature, 5, 0.9F)}) {
      EXPECT_EQ(Histogram(unique, spec, 50)[static_cast<size_t>(best)], 50);
    }
  }
}

TEST(SamplerTest, SeedChoiceAndPositionEachMatterAndReproduce) {
  const std::vector<float> logits(1000, 0.0F);
  const auto tokens = [&](uint64_t seed, uint32_t choice, int64_t first) {
    std::vector<TokenId> ids;
    for (int64_t position = first; position < first + 8; ++position) {
      core::SampleSpec spec = Spec(1, 0, 1, 0, seed);
      spec.choice = choice;
      ids.push_back(SampleOnce(logits, spec, position).token);
    }
    return ids;
  };
  const auto base = tokens(1, 0, 0);
  EXPECT_EQ(tokens(1, 0, 0), base);
  EXPECT_NE(tokens(2, 0, 0), base);
  EXPECT_NE(tokens(1, 1, 0), base);
  const auto later = tokens(1, 0, 4);
  EXPECT_TRUE(std::equal(later.begin(), later.begin() + 4, base.begin() + 4));
  EXPECT_NE(base[0], base[1]);
  // With equal weights in id order, the uniform number divides them evenly.
  EXPECT_EQ(base[0], static_cast<TokenId>(base::SampleUniform(1, 0, 0) * 1000));
}

TEST(SamplerTest, LogprobsAreOfTheRawDistribution) {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 2.0F, 0.0F};
  core::SampleSpec spec = Spec(0.3F, 1);
  spec.num_logprobs = 4;
  const core::Sampled out = SampleOnce(logits, spec);
  const auto p = Softmax(logits, 1.0);
  EXPECT_EQ(out.token, 1);
  EXPECT_NEAR(out.logprob, std::log(p[1]), 1e-5);
  const std::vector<TokenId> order = {1, 3, 0, 4};
  ASSERT_EQ(out.top_logprobs.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(out.top_logprobs[i].id, order[i]);
    EXPECT_NEAR(out.top_logprobs[i].logprob, std::log(p[static_cast<size_t>(order[i])]), 1e-5);
  }
  EXPECT_EQ(out.logprob, out.top_logprobs[0].logprob);
}

TEST(SamplerTest, TopLogprobsOfAWideRangeAreInOrder) {
  std::vector<float> logits;
  for (int i = 0; i < 5000; ++i) logits.push_back(static_cast<float>((i * 7919) % 5000) * 0.02F);
  core::SampleSpec spec = Spec(0);
  spec.num_logprobs = 20;
  const core::Sampled out = SampleOnce(logits, spec);
  std::vector<TokenId> ids(5000);
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(out.top_logprobs[i].id, ids[i]) << i;
}

TEST(SamplerTest, LogprobsAreThoseBeforeBiasesAndPenalties) {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 1.5F, 0.0F};
  core::SampleSpec plain = Spec(0);
  plain.num_logprobs = 5;
  core::SampleSpec spec = plain;
  spec.params.logit_bias = {{2, 50.0F}};
  const core::Sampled biased = SampleOnce(logits, spec);
  const core::Sampled raw = SampleOnce(logits, plain);
  EXPECT_EQ(biased.token, 2);
  EXPECT_NEAR(biased.logprob, std::log(Softmax(logits, 1.0)[2]), 1e-5);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(biased.top_logprobs[i].id, raw.top_logprobs[i].id);
    EXPECT_EQ(biased.top_logprobs[i].logprob, raw.top_logprobs[i].logprob);
  }
}

TEST(SamplerTest, ScoreReportsWhatSampleWould) {
  const auto logits = SomeLogits(300);
  core::SampleSpec spec = Spec(1);
  spec.num_logprobs = 7;
  Sampler sampler(&kernels::kReferenceKernels, 300);
  for (int64_t position = 0; position < 20; ++position) {
    const core::Sampled sampled = SampleOnce(logits, spec, position);
    core::Scored scored;
    scored.token = sampled.token;
    scored.top_logprobs.resize(7);
    sampler.Score(logits, &scored);
    EXPECT_EQ(scored.logprob, sampled.logprob);
    for (size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(scored.top_logprobs[i].id, sampled.top_logprobs[i].id);
      EXPECT_EQ(scored.top_logprobs[i].logprob, sampled.top_logprobs[i].logprob);
    }
  }
}

TEST(SamplerTest, ARowWhoseTokensAreAllForbiddenIsInvalid) {
  core::SampleSpec spec = Spec(1);
  spec.end_ids = {0, 1, 2};
  spec.params.min_tokens = 1;
  EXPECT_TRUE(SampleOnce({1.0F, 2.0F, 3.0F}, spec).invalid);
  EXPECT_FALSE(SampleOnce({1.0F, 2.0F, 3.0F}, spec, 1).invalid);
  spec.end_ids = {2};
  EXPECT_NE(SampleOnce({1.0F, 2.0F, 300.0F}, spec).token, 2);
  EXPECT_EQ(SampleOnce({1.0F, 2.0F, 300.0F}, spec, 1).token, 2);
}

TEST(SamplerTest, EveryInstructionSetDrawsTheSame) {
  std::vector<float> logits;
  for (int i = 0; i < 49152; ++i) {
    logits.push_back(
        static_cast<float>(base::SampleUniform(3, 0, static_cast<uint64_t>(i)) * 24 - 12));
  }
  int compared = 0;
  for (const char* name : {"avx2", "avx512vnni"}) {
    const kernels::Kernels* kernels = kernels::KernelsByName(name);
    if (kernels == nullptr) continue;
    for (core::SampleSpec spec :
         {Spec(1), Spec(0.7F, 40, 0.95F), Spec(1.3F, 0, 0.9F, 0.01F), Spec(0)}) {
      spec.num_logprobs = 5;
      for (int64_t position = 0; position < 5; ++position) {
        const core::Sampled a = SampleOnce(logits, spec, position);
        const core::Sampled b = SampleOnce(logits, spec, position, kernels);
        EXPECT_EQ(a.token, b.token);
        EXPECT_EQ(a.logprob, b.logprob);
        for (size_t i = 0; i < 5; ++i) {
          EXPECT_EQ(a.top_logprobs[i].id, b.top_logprobs[i].id);
          EXPECT_EQ(a.top_logprobs[i].logprob, b.top_logprobs[i].logprob);
        }
        ++compared;
      }
    }
  }
  if (compared == 0) GTEST_SKIP() << "missing hardware: AVX2";
}

}  // namespace
}  // namespace ropeway::sampling
