#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "sampling/sampler.h"
#include "sampling/test_values.h"

namespace ropeway::sampling {
namespace {

std::vector<float> Weights(const std::vector<float>& logits, float temperature) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<float> weights;
  for (const float l : logits) {
    const float x = (l - max) / temperature;
    weights.push_back(x >= -87.0F ? std::exp(x) : 0.0F);
  }
  return weights;
}

std::set<size_t> Positive(const std::vector<float>& weights) {
  std::set<size_t> ids;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0.0F) ids.insert(i);
  }
  return ids;
}

// Meister et al. 2023, section 3, word by word: entropy, surprisals, and the smallest set of tokens
// nearest to the entropy that reaches tau.
std::set<size_t> PaperSet(const std::vector<float>& logits, double temperature, double tau) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const float l : logits) p.push_back(std::exp((l - max) / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  double entropy = 0;
  for (double& x : p) {
    x /= sum;
    if (x > 0) entropy -= x * std::log(x);
  }
  std::vector<size_t> ids(p.size());
  std::iota(ids.begin(), ids.end(), 0U);
  const auto distance = [&](size_t i) { return std::fabs(entropy + std::log(p[i])); };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](size_t a, size_t b) { return distance(a) < distance(b); });
  std::set<size_t> kept;
  double reached = 0;
  for (const size_t id : ids) {
    if (reached >= tau) break;
    reached += p[id];
    kept.insert(id);
  }
  return kept;
}

TEST(TypicalFilterTest, KeepsThePapersSetOnRandomRows) {
  std::mt19937 random(8);
  constexpr int kVocab = 3000;
  TypicalFilter filter(kVocab);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() % 1000003) / 1000003;
  };
  for (int repeat = 0; repeat < 200; ++repeat) {
    const double width = uniform(0.5, 30);
    std::vector<float> logits;
    for (int i = 0; i < kVocab; ++i) logits.push_back(static_cast<float>(uniform(-width, 0)));
    const float temperature = static_cast<float>(uniform(0.3, 2));
    const float tau = static_cast<float>(uniform(0.01, 0.99));
    std::vector<float> weights = Weights(logits, temperature);
    const std::vector<float> before = weights;
    filter.Apply(logits, *std::max_element(logits.begin(), logits.end()), temperature, tau,
                 weights);
    EXPECT_EQ(Positive(weights), PaperSet(logits, double{temperature}, double{tau})) << repeat;
    for (const size_t id : Positive(weights)) EXPECT_EQ(weights[id], before[id]);
  }
}

TEST(TypicalFilterTest, CanDropTheMostProbableToken) {
  // Probabilities 0.4 and a hundred of 0.006: the entropy is 3.4, 0.4's surprisal 0.9, theirs 5.1.
  std::vector<float> logits(101, std::log(0.006F));
  logits[50] = std::log(0.4F);
  std::vector<float> weights = Weights(logits, 1.0F);
  TypicalFilter filter(101);
  filter.Apply(logits, logits[50], 1.0F, 0.297F, weights);
  EXPECT_EQ(Positive(weights).size(), 50U);
  EXPECT_FALSE(Positive(weights).contains(50));
  EXPECT_TRUE(Positive(weights).contains(0));  // Ties go to the lowest ids.
  EXPECT_FALSE(Positive(weights).contains(60));
}

TEST(TypicalFilterTest, SomethingIsAlwaysLeft) {
  TypicalFilter filter(4);
  for (const float typical_p : {std::numeric_limits<float>::denorm_min(), 0.5F, 0.99999994F}) {
    std::vector<float> weights = {0.0F, 1.0F, 0.0F, 0.0F};
    filter.Apply(std::vector<float>{-kInf, 2.0F, -kInf, 1.0F}, 2.0F, 1e-30F, typical_p, weights);
    EXPECT_EQ(weights, std::vector<float>({0.0F, 1.0F, 0.0F, 0.0F}));
    weights = {1.0F, 1.0F, 1.0F, 1.0F};
    filter.Apply(std::vector<float>{3.0F, 3.0F, 3.0F, 3.0F}, 3.0F, 1.0F, typical_p, weights);
    EXPECT_GE(Positive(weights).size(), 1U);
    EXPECT_TRUE(Positive(weights).contains(0));
  }
}

TEST(TypicalFilterTest, WhatIsOutAlreadyStaysOut) {
  TypicalFilter filter(3);
  std::vector<float> weights = {1.0F, 0.0F, 0.25F};
  filter.Apply(std::vector<float>{0.0F, -0.1F, std::log(0.25F)}, 0.0F, 1.0F, 0.9999F, weights);
  EXPECT_EQ(weights, std::vector<float>({1.0F, 0.0F, 0.25F}));
}

}  // namespace
}  // namespace ropeway::sampling
