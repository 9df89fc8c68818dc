#include "executor/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "executor/weight_sum.h"

namespace ropeway {
namespace {

constexpr float kMinExponent = -87.0F;  // exp() of less is hardly a normal float.
constexpr size_t kFirstSorted = 64;

}  // namespace

Sampler::Sampler(const Kernels* kernels, int vocab_size)
    : kernels_(kernels),
      adjuster_(vocab_size),
      typical_(vocab_size),
      order_(static_cast<size_t>(vocab_size)),
      weights_(static_cast<size_t>(vocab_size)),
      scratch_(static_cast<size_t>(vocab_size)) {}

bool Sampler::NeedsOnlyLargest(const SampleSpec& spec) {
  return !(spec.params.temperature > 0.0F) && spec.num_logprobs < 0 &&
         !LogitAdjuster::InUse(spec.params);
}

void Sampler::Sample(std::span<const float> logits, const SampleSpec& spec,
                     std::span<const TokenId> ids, int64_t position, Sampled* out) {
  ordered_ = nullptr;
  out->token = Draw(adjuster_.Adjust(logits, spec, ids, position), spec, position, &out->invalid);
  if (spec.num_logprobs >= 0) {
    ReportLogprobs(logits, out->token, &out->logprob, out->top_logprobs);
  }
}

void Sampler::Score(std::span<const float> logits, Scored* out) {
  ordered_ = nullptr;
  ReportLogprobs(logits, out->token, &out->logprob, out->top_logprobs);
}

void Sampler::ReportLogprobs(std::span<const float> logits, TokenId token, float* logprob,
                             std::span<TokenLogprob> top) {
  const int n = static_cast<int>(logits.size());
  const float normalizer = kernels_->log_sum_exp(logits.data(), n);
  *logprob = logits[static_cast<size_t>(token)] - normalizer;
  const size_t count = std::min(top.size(), logits.size());
  if (count == 0) return;
  // Where nothing was adjusted, the draw may have put this very row in order.
  if (ordered_ != logits.data()) {
    Order(logits, logits[static_cast<size_t>(kernels_->argmax(logits.data(), n))]);
  }
  order_.Ensure(count);
  for (size_t i = 0; i < count; ++i) top[i] = {order_[i].id, order_[i].key - normalizer};
}

void Sampler::Order(std::span<const float> logits, float max) {
  order_.Begin(logits, max);
  ordered_ = logits.data();
}

TokenId Sampler::Draw(std::span<const float> logits, const SampleSpec& spec, int64_t position,
                      bool* invalid) {
  const SamplingParams& params = spec.params;
  const TokenId best = kernels_->argmax(logits.data(), static_cast<int>(logits.size()));
  const float max = logits[static_cast<size_t>(best)];
  *invalid = !(max > -std::numeric_limits<float>::infinity());
  if (!(params.temperature > 0.0F) || !std::isfinite(max)) return best;

  const double u = SampleUniform(spec.seed, spec.choice, static_cast<uint64_t>(position));
  ComputeWeights(logits, max, params.temperature);
  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  const bool sorted = top_k || params.top_p < 1.0F;
  if (sorted) Order(logits, max);
  if (params.typical_p < 1.0F) {
    if (top_k) {
      order_.Ensure(static_cast<size_t>(params.top_k));
      order_.KeepWeights(static_cast<size_t>(params.top_k), scratch_, weights_);
    }
    typical_.Apply(logits, max, params.temperature, params.typical_p, weights_);
  }
  return sorted ? DrawSorted(logits, params, u) : DrawInIdOrder(params, u);
}

void Sampler::ComputeWeights(std::span<const float> logits, float max, float temperature) {
  kernels_->exp_weights(logits.data(), static_cast<int>(logits.size()), max, temperature,
                        kMinExponent, weights_.data());
}

double Sampler::TotalWeight() const {
  return SumInBlocks(weights_.size(), [this](size_t i) { return double{weights_[i]}; });
}

TokenId Sampler::DrawInIdOrder(const SamplingParams& params, double u) {
  if (params.min_p > 0.0F) {
    const float least =
        std::min(params.min_p, 1.0F) * *std::max_element(weights_.begin(), weights_.end());
    for (float& w : weights_) w = w >= least ? w : 0.0F;
  }
  const double target = u * TotalWeight();
  double sum = 0;
  TokenId last = 0;  // The last one with a weight, where rounding leaves `sum` below `target`.
  for (size_t begin = 0; begin < weights_.size(); begin += kSumBlock) {
    const size_t n = std::min(kSumBlock, weights_.size() - begin);
    const double after = sum + BlockSum(begin, n, [this](size_t i) { return double{weights_[i]}; });
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
    return double{weights_[static_cast<size_t>(order_[rank].id)]};
  };
  const size_t vocab = logits.size();
  size_t kept = vocab;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < vocab) {
    kept = static_cast<size_t>(params.top_k);
    order_.Ensure(kept);
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
      if (rank >= order_.sorted()) order_.Ensure(std::min(kept, std::max(kFirstSorted, rank * 2)));
      sum += weight(rank);
      if (sum >= enough) kept = rank + 1;
    }
  }
  // Weights fall along the order but for the exponential's last bit, hence each one is looked at.
  double largest = 0;
  for (size_t rank = 0; rank < kept; ++rank) largest = std::max(largest, weight(rank));
  const float least = std::min(params.min_p, 1.0F) * static_cast<float>(largest);
  double total = 0;
  for (size_t rank = 0; rank < kept; ++rank) {
    if (weight(rank) >= double{least}) total += weight(rank);
  }
  const double target = u * total;
  double sum = 0;
  size_t chosen = 0;
  for (size_t rank = 0; rank < kept; ++rank) {
    if (!(weight(rank) >= double{least}) || !(weight(rank) > 0)) continue;
    chosen = rank;
    sum += weight(rank);
    if (sum > target) break;
  }
  return order_[chosen].id;
}

}  // namespace ropeway
