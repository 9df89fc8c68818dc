// Draws from wide distributions, where sums in buckets stand for a whole sort: the same tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "sampling/sampler.h"
#include "sampling/test_values.h"

namespace ropeway::sampling {
namespace {

constexpr int kWideVocab = 12000;

// docs/numerics.md, "Sampling": a sum over the vocabulary.
template <typename Term>
double PlainSum(size_t n, Term term) {
  double total = 0;
  for (size_t begin = 0; begin < n; begin += 1024) {
    double s[8] = {};
    for (size_t i = begin; i < std::min(begin + 1024, n); ++i) s[(i - begin) % 8] += term(i);
    total += ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  }
  return total;
}

// Steps 7 to 12 with every order sorted and every sum in that order.
class WholeSort {
 public:
  WholeSort(const std::vector<float>& logits, const SamplingParams& params)
      : logits_(logits), params_(params), weights_(logits.size()) {
    const auto n = static_cast<int>(logits.size());
    max_ = logits[static_cast<size_t>(kernels::kReferenceKernels.argmax(logits.data(), n))];
    kernels::kReferenceKernels.exp_weights(logits.data(), n, max_, params.temperature, -87.0F,
                                           weights_.data());
    order_ = Sorted([&](size_t i) { return std::isnan(logits[i]) ? -kInf : logits[i]; });
  }

  TokenId Draw(double u) {
    const size_t vocab = logits_.size();
    const bool top_k = params_.top_k > 0 && static_cast<size_t>(params_.top_k) < vocab;
    size_t kept = top_k ? static_cast<size_t>(params_.top_k) : vocab;
    if (params_.typical_p < 1.0F) {
      Keep(order_, kept);
      Typical();
    }
    if (params_.top_p < 1.0F) {
      double total = 0;
      for (size_t rank = 0; rank < kept; ++rank) total += Weight(rank);
      if (!top_k) total = PlainSum(vocab, [&](size_t i) { return double{weights_[i]}; });
      double sum = 0;
      for (size_t rank = 0; rank < kept; ++rank) {
        sum += Weight(rank);
        if (sum >= double{params_.top_p} * total) kept = rank + 1;
      }
    }
    float largest = 0;
    for (size_t rank = 0; rank < kept; ++rank) largest = std::max(largest, weights_[order_[rank]]);
    const float least = std::min(params_.min_p, 1.0F) * largest;
    double total = 0;
    for (size_t rank = 0; rank < kept; ++rank) {
      if (weights_[order_[rank]] >= least) total += Weight(rank);
    }
    double sum = 0;
    size_t chosen = 0;
    for (size_t rank = 0; rank < kept; ++rank) {
      if (weights_[order_[rank]] < least || weights_[order_[rank]] == 0) continue;
      chosen = rank;
      sum += Weight(rank);
      if (sum > u * total) break;
    }
    return static_cast<TokenId>(order_[chosen]);
  }

 private:
  template <typename KeyOf>
  std::vector<size_t> Sorted(KeyOf key) const {
    std::vector<size_t> ids(logits_.size());
    std::iota(ids.begin(), ids.end(), 0U);
    std::stable_sort(ids.begin(), ids.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
    return ids;
  }
  double Weight(size_t rank) const { return double{weights_[order_[rank]]}; }
  void Keep(const std::vector<size_t>& order, size_t kept) {
    for (size_t rank = kept; rank < order.size(); ++rank) weights_[order[rank]] = 0;
  }
  void Typical() {
    const auto exponent = [&](size_t i) {
      return double{(logits_[i] - max_) / params_.temperature};
    };
    const double total = PlainSum(weights_.size(), [&](size_t i) { return double{weights_[i]}; });
    const double mean = PlainSum(weights_.size(),
                                 [&](size_t i) {
                                   return weights_[i] > 0 ? double{weights_[i]} * exponent(i) : 0.0;
                                 }) /
                        total;
    const auto order = Sorted([&](size_t i) {
      return weights_[i] > 0 ? -static_cast<float>(std::fabs(mean - exponent(i))) : -kInf;
    });
    double sum = 0;
    size_t kept = 0;
    while (kept < order.size() && (kept == 0 || sum < double{params_.typical_p} * total)) {
      sum += double{weights_[order[kept++]]};
    }
    Keep(order, kept);
  }

  const std::vector<float>& logits_;
  const SamplingParams params_;
  float max_ = 0;
  std::vector<float> weights_;
  std::vector<size_t> order_;
};

enum class Shape { kNormal, kFlat, kTies, kOutlier, kHoles };

std::vector<float> ShapedLogits(Shape shape, uint32_t seed) {
  std::mt19937 random(seed);
  const auto uniform = [&] { return static_cast<float>(random() % 1000003) / 1000003.0F; };
  std::vector<float> logits;
  for (int i = 0; i < kWideVocab; ++i) {
    float sum = -6;
    for (int j = 0; j < 12; ++j) sum += uniform();
    if (shape == Shape::kFlat) sum *= 0.001F;
    if (shape == Shape::kTies) sum = std::floor(2 * sum);
    if (shape == Shape::kHoles && i % 7 == 0) sum = i % 2 == 0 ? -kInf : kNan;
    logits.push_back(3 * sum);
  }
  if (shape == Shape::kOutlier) logits[4321] = 60;
  return logits;
}

TEST(SamplerWideTest, DrawsWhatAWholeSortDraws) {
  Sampler sampler(&kernels::kReferenceKernels, kWideVocab);
  uint32_t seed = 0;
  for (const Shape shape :
       {Shape::kNormal, Shape::kFlat, Shape::kTies, Shape::kOutlier, Shape::kHoles}) {
    for (const auto& [top_k, typical_p, top_p, min_p] :
         {std::tuple(0, 1.0F, 0.9999F, 0.0F), std::tuple(0, 1.0F, 0.5F, 1e-4F),
          std::tuple(9000, 1.0F, 1.0F, 0.0F), std::tuple(9000, 1.0F, 0.99F, 1e-3F),
          std::tuple(513, 1.0F, 0.9F, 0.0F), std::tuple(512, 0.95F, 0.9F, 0.0F),
          std::tuple(0, 0.9999F, 1.0F, 0.0F), std::tuple(0, 0.9F, 0.999F, 1e-5F),
          std::tuple(10000, 0.999F, 0.9999F, 0.0F)}) {
      ++seed;
      core::SampleSpec spec;
      spec.params.temperature = seed % 3 == 0 ? 1.0F : 2.0F;
      spec.params.top_k = top_k;
      spec.params.typical_p = typical_p;
      spec.params.top_p = top_p;
      spec.params.min_p = min_p;
      spec.seed = seed;
      const std::vector<float> logits = ShapedLogits(shape, seed);
      for (int64_t position = 0; position < 2; ++position) {
        core::Sampled out;
        sampler.Sample(logits, spec, {}, position, {}, &out);
        const double u = base::SampleUniform(seed, 0, static_cast<uint64_t>(position));
        if (top_k == 0 && top_p == 1.0F) continue;  // Drawn in the order of ids.
        ASSERT_EQ(out.token, WholeSort(logits, spec.params).Draw(u))
            << "shape " << static_cast<int>(shape) << ", case " << seed;
      }
    }
  }
}

// A prefix that Reach finds is the one of the sorted sum, and it finds nearly all.
TEST(RankBucketsTest, FindsThePrefixesOfTheSortedSum) {
  RankBuckets buckets(kWideVocab);
  std::mt19937 random(3);
  int found = 0;
  constexpr int kTries = 60;
  const std::vector<float> keys = ShapedLogits(Shape::kNormal, 9);
  std::vector<float> weights;
  for (const float key : keys) weights.push_back(std::exp((key - 20) / 2));
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  buckets.Begin(keys, 20.0F, 40.0F);
  for (int i = 0; i < kTries; ++i) {
    const size_t first = i % 2 == 0 ? keys.size() : 1 + random() % keys.size();
    const float least = i % 3 == 0 ? weights[random() % weights.size()] : 0.0F;
    buckets.Sum(weights, least, first == keys.size() ? RankBuckets::All() : buckets.First(first));
    double total = 0;
    for (size_t rank = 0; rank < first; ++rank) {
      if (weights[order[rank]] >= least) total += double{weights[order[rank]]};
    }
    ASSERT_NEAR(buckets.total(), total, buckets.error() * total);
    const double enough = total * static_cast<double>(random() % 1000) / 1000.0;
    const auto cut = buckets.Reach(enough, 0.0);
    if (!cut) continue;
    ++found;
    double sum = 0;
    size_t rank = 0;
    for (; rank < first; ++rank) {
      if (weights[order[rank]] >= least) sum += double{weights[order[rank]]};
      if (sum > enough) break;
    }
    ASSERT_EQ(buckets.LastOf(*cut), static_cast<TokenId>(order[rank])) << i;
    ASSERT_EQ(buckets.Largest(weights, *cut), weights[order[0]]);
  }
  EXPECT_GE(found, kTries - 2);
}

TEST(RankBucketsTest, KeepsTheFirst) {
  RankBuckets buckets(4000);
  const std::vector<float> keys = {3.0F, kNan, 5.0F, 3.0F, -kInf, 5.0F, 4.0F};
  const std::vector<std::vector<float>> kept = {
      {0, 0, 0, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 1, 0}, {0, 0, 1, 0, 0, 1, 1},
      {1, 0, 1, 0, 0, 1, 1}, {1, 0, 1, 1, 0, 1, 1}, {1, 1, 1, 1, 0, 1, 1}, {1, 1, 1, 1, 1, 1, 1}};
  for (const float width : {1e-6F, 1.0F, 1000.0F}) {
    buckets.Begin(keys, 5.0F, width);
    for (size_t count = 0; count < kept.size(); ++count) {
      std::vector<float> weights(keys.size(), 1.0F);
      buckets.KeepWeights(buckets.First(count), weights);
      EXPECT_EQ(weights, kept[count]) << width << ", " << count;
    }
  }
}

TEST(RankBucketsTest, SaysWhereRoundingCouldDecide) {
  RankBuckets buckets(4);
  const std::vector<float> keys = {4.0F, 3.0F, 2.0F, 1.0F};
  const std::vector<float> weights = {1.0F, 1.0F, 0.0F, 1.0F};
  buckets.Begin(keys, 4.0F, 3.0F);
  buckets.Sum(weights, 0.0F, RankBuckets::All());
  EXPECT_FALSE(buckets.Reach(2.0, 0.0).has_value());
  EXPECT_FALSE(buckets.Reach(4.0, 0.0).has_value()) << "none does";
  EXPECT_FALSE(buckets.Reach(1.9, 0.2).has_value());
  const auto second = buckets.Reach(1.9, 0.01);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(buckets.LastOf(*second), 1);
  const auto first = buckets.Reach(0.0, 0.0);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(buckets.LastOf(*first), 0);
}

}  // namespace
}  // namespace ropeway::sampling
