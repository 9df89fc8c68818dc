#include "executor/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/philox.h"

namespace ropeway {
namespace {

constexpr size_t kSumBlock = 1024;
constexpr size_t kSumLanes = 8;
constexpr float kMinExponent = -87.0F;  // exp() of less is not a normal float.

// Buckets for the partial sort: wide enough to hold few tokens near the maximum, where it matters.
// They only decide how much is sorted, never the order.
constexpr size_t kBuckets = 1024;
constexpr float kBucketsPerUnit = 32.0F;
constexpr size_t kFirstSorted = 64;

float NanToLowest(float x) { return std::isnan(x) ? -std::numeric_limits<float>::infinity() : x; }

size_t BucketOf(float logit, float max) {
  const float distance = (max - logit) * kBucketsPerUnit;
  // Written so that NaN (from a NaN logit, or infinity minus infinity) goes to the last one.
  return distance < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(distance) : kBuckets - 1;
}

double BlockSum(const float* w, size_t n) {
  std::array<double, kSumLanes> s{};
  size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (size_t lane = 0; lane < kSumLanes; ++lane) s[lane] += double{w[i + lane]};
  }
  for (size_t lane = 0; i < n; ++i, ++lane) s[lane] += double{w[i]};
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

}  // namespace

Sampler::Sampler(const Kernels* kernels, int vocab_size)
    : kernels_(kernels), weights_(static_cast<size_t>(vocab_size)), bucket_size_(kBuckets) {
  sorted_.reserve(static_cast<size_t>(vocab_size));
}

void Sampler::Sample(std::span<const float> logits, const SampleSpec& spec, int64_t position,
                     Sampled* out) {
  out->token = Draw(logits, spec, position);
  if (spec.num_logprobs < 0) return;
  const int n = static_cast<int>(logits.size());
  const float normalizer = kernels_->log_sum_exp(logits.data(), n);
  out->logprob = logits[static_cast<size_t>(out->token)] - normalizer;
  if (out->top_logprobs.empty()) return;
  BeginOrder(logits, logits[static_cast<size_t>(kernels_->argmax(logits.data(), n))]);
  EnsureSorted(logits, std::min(out->top_logprobs.size(), logits.size()));
  for (size_t i = 0; i < out->top_logprobs.size() && i < logits.size(); ++i) {
    out->top_logprobs[i] = {sorted_[i].id, sorted_[i].logit - normalizer};
  }
}

TokenId Sampler::Draw(std::span<const float> logits, const SampleSpec& spec, int64_t position) {
  const SamplingParams& params = spec.params;
  const TokenId best = kernels_->argmax(logits.data(), static_cast<int>(logits.size()));
  const float max = logits[static_cast<size_t>(best)];
  if (!(params.temperature > 0.0F) || !std::isfinite(max)) return best;

  const double u = SampleUniform(spec.seed, spec.choice, static_cast<uint64_t>(position));
  ComputeWeights(logits, max, params.temperature);
  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  if (!top_k && !(params.top_p < 1.0F)) return DrawInIdOrder(params.min_p, u);
  BeginOrder(logits, max);
  return DrawSorted(logits, params, u);
}

void Sampler::ComputeWeights(std::span<const float> logits, float max, float temperature) {
  const size_t n = logits.size();
  for (size_t i = 0; i < n; ++i) {
    const float x = (logits[i] - max) / temperature;
    weights_[i] = x >= kMinExponent ? x : kMinExponent;  // NaN too.
  }
  kernels_->exp_shifted(weights_.data(), static_cast<int>(n), 0.0F, weights_.data());
  for (size_t i = 0; i < n; ++i) {
    const float x = (logits[i] - max) / temperature;
    weights_[i] = x >= kMinExponent ? weights_[i] : 0.0F;
  }
}

double Sampler::TotalWeight() const {
  double total = 0;
  for (size_t begin = 0; begin < weights_.size(); begin += kSumBlock) {
    total += BlockSum(weights_.data() + begin, std::min(kSumBlock, weights_.size() - begin));
  }
  return total;
}

TokenId Sampler::DrawInIdOrder(float min_p, double u) {
  if (min_p > 0.0F) {
    const float least = std::min(min_p, 1.0F);  // The best token has weight 1 and stays.
    for (float& w : weights_) w = w >= least ? w : 0.0F;
  }
  const double target = u * TotalWeight();
  double sum = 0;
  TokenId last = 0;  // The last one with a weight, where rounding leaves `sum` below `target`.
  for (size_t begin = 0; begin < weights_.size(); begin += kSumBlock) {
    const size_t n = std::min(kSumBlock, weights_.size() - begin);
    const double after = sum + BlockSum(weights_.data() + begin, n);
    if (after > sum) {
      const bool here = after > target;
      double within = sum;
      for (size_t i = begin; i < begin + n; ++i) {
        if (!(weights_[i] > 0.0F)) continue;
        last = static_cast<TokenId>(i);
        within += double{weights_[i]};
        if (here && within > target) return last;
      }
      if (here) return last;
    }
    sum = after;
  }
  return last;
}

TokenId Sampler::DrawSorted(std::span<const float> logits, const SamplingParams& params, double u) {
  const auto weight = [this](size_t rank) {
    return double{weights_[static_cast<size_t>(sorted_[rank].id)]};
  };
  const size_t vocab = logits.size();
  size_t kept = vocab;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < vocab) {
    kept = static_cast<size_t>(params.top_k);
    EnsureSorted(logits, kept);
  }
  if (params.top_p < 1.0F) {
    double total = 0;
    if (kept == vocab) {
      total = TotalWeight();
    } else {
      for (size_t rank = 0; rank < kept; ++rank) total += weight(rank);
    }
    const double enough = double{params.top_p} * total;
    double sum = 0;
    for (size_t rank = 0; rank < kept; ++rank) {
      if (rank >= sorted_.size()) {
        EnsureSorted(logits, std::min(kept, std::max(kFirstSorted, rank * 8)));
      }
      sum += weight(rank);
      if (sum >= enough) kept = rank + 1;
    }
  }
  const double least = double{std::min(params.min_p, 1.0F)};
  double total = 0;
  // Weights fall along the order but for the exponential's last bit, hence each one is looked at.
  for (size_t rank = 0; rank < kept; ++rank) {
    if (weight(rank) >= least) total += weight(rank);
  }
  const double target = u * total;
  double sum = 0;
  size_t chosen = 0;
  for (size_t rank = 0; rank < kept; ++rank) {
    if (!(weight(rank) >= least) || !(weight(rank) > 0)) continue;
    chosen = rank;
    sum += weight(rank);
    if (sum > target) break;
  }
  return sorted_[chosen].id;
}

void Sampler::BeginOrder(std::span<const float> logits, float max) {
  sorted_.clear();
  buckets_sorted_ = 0;
  order_max_ = max;
  std::fill(bucket_size_.begin(), bucket_size_.end(), 0);
  for (const float logit : logits) ++bucket_size_[BucketOf(logit, max)];
}

void Sampler::EnsureSorted(std::span<const float> logits, size_t count) {
  if (sorted_.size() >= count) return;
  const size_t begin = buckets_sorted_;
  const size_t old_size = sorted_.size();
  for (size_t size = old_size; size < count; ++buckets_sorted_) {
    size += static_cast<size_t>(bucket_size_[buckets_sorted_]);
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    const size_t bucket = BucketOf(logits[i], order_max_);
    if (bucket >= begin && bucket < buckets_sorted_) {
      sorted_.push_back({NanToLowest(logits[i]), static_cast<TokenId>(i)});
    }
  }
  std::sort(sorted_.begin() + static_cast<std::ptrdiff_t>(old_size), sorted_.end(),
            [](const Candidate& a, const Candidate& b) {
              return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
            });
}

}  // namespace ropeway
