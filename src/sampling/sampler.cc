#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"

namespace ropeway::sampling {
namespace {

constexpr float kMinExponent = -87.0F;  // exp() of less is hardly a normal float.
constexpr size_t kFirstSorted = 64;
// Sorting more costs more than RankBuckets.
constexpr size_t kMostSorted = 512;
constexpr float kLeastWidth = 1e-6F;  // All buckets together.

// Sums over a whole vocabulary are in double and in one order: blocks of 1024 ids, each as eight
// interleaved sums s0..s7 joined as ((s0+s4)+(s2+s6))+((s1+s5)+(s3+s7)), the blocks added in order.
constexpr size_t kSumBlock = 1024;
constexpr size_t kSumLanes = 8;

// The sum of term(i), a double, over [begin, begin + n).
template <typename Term>
double BlockSum(size_t begin, size_t n, Term term) {
  std::array<double, kSumLanes> s{};
  size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (size_t lane = 0; lane < kSumLanes; ++lane) s[lane] += term(begin + i + lane);
  }
  for (size_t lane = 0; i < n; ++i, ++lane) s[lane] += term(begin + i);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

// The sum of term(i) over [0, n).
template <typename Term>
double SumInBlocks(size_t n, Term term) {
  double total = 0;
  for (size_t begin = 0; begin < n; begin += kSumBlock) {
    total += BlockSum(begin, std::min(kSumBlock, n - begin), term);
  }
  return total;
}

constexpr size_t kMaskBits = 32;

constexpr std::array<uint32_t, kMaskBits> MaskBits() {
  std::array<uint32_t, kMaskBits> bits{};
  for (size_t i = 0; i < kMaskBits; ++i) bits[i] = 1U << i;
  return bits;
}

// A table, since compilers shift and choose lane by lane, but vectorize this.
constexpr std::array<uint32_t, kMaskBits> kMaskBit = MaskBits();

// Copies 32 logits, those whose bit is not set as minus infinity. `to` may be `from`.
void CopyWord(uint32_t word, const float* from, float* to) {
  constexpr auto kLowest = std::bit_cast<uint32_t>(-std::numeric_limits<float>::infinity());
  std::array<uint32_t, kMaskBits> bits;
  std::memcpy(bits.data(), from, sizeof bits);
  for (size_t lane = 0; lane < kMaskBits; ++lane) {
    const uint32_t keep = (word & kMaskBit[lane]) == kMaskBit[lane] ? ~0U : 0U;
    bits[lane] = (bits[lane] & keep) | (kLowest & ~keep);
  }
  std::memcpy(to, bits.data(), sizeof bits);
}

// Copies the row, with minus infinity for the ids that the mask does not allow. `from` may be the
// row's own memory.
void CopyAllowed(std::span<const uint32_t> mask, std::span<const float> from,
                 std::span<float> row) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const size_t whole = std::min(mask.size(), row.size() / kMaskBits);
  for (size_t w = 0; w < whole; ++w) {
    float* const to = row.data() + w * kMaskBits;
    if (mask[w] == 0) {
      std::fill_n(to, kMaskBits, kLowest);
    } else if (mask[w] == ~0U) {
      std::memmove(to, from.data() + w * kMaskBits, kMaskBits * sizeof(float));
    } else {
      CopyWord(mask[w], from.data() + w * kMaskBits, to);
    }
  }
  const uint32_t last = whole < mask.size() ? mask[whole] : 0;
  for (size_t i = whole * kMaskBits; i < row.size(); ++i) {
    const size_t bit = i - whole * kMaskBits;
    row[i] = bit < kMaskBits && (last >> bit & 1U) != 0 ? from[i] : kLowest;
  }
}

}  // namespace

LogitAdjuster::LogitAdjuster(int vocab_size)
    : row_(static_cast<size_t>(vocab_size)),
      generated_(static_cast<size_t>(vocab_size)),
      pending_(static_cast<size_t>(vocab_size)) {}

bool LogitAdjuster::NeedsIds(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
         params.frequency_penalty != 0.0F;
}

bool LogitAdjuster::InUse(const SamplingParams& params) {
  return !params.logit_bias.empty() || params.min_tokens > 0 || NeedsIds(params);
}

std::span<const float> LogitAdjuster::Adjust(std::span<const float> logits,
                                             const core::SampleSpec& spec,
                                             std::span<const TokenId> ids, int64_t position,
                                             std::span<const uint32_t> mask) {
  const SamplingParams& params = spec.params;
  std::span<const float> adjusted = logits;
  if (InUse(params)) {
    std::copy(logits.begin(), logits.end(), row_.begin());
    adjusted = row_;
    for (const LogitBias& entry : params.logit_bias) {
      if (Known(entry.id)) row_[static_cast<size_t>(entry.id)] += entry.bias;
    }
    if (NeedsIds(params)) {
      const auto prompt =
          std::clamp<size_t>(static_cast<size_t>(std::max(spec.prompt_len, 0)), 0, ids.size());
      Penalise(params, ids.first(prompt), ids.subspan(prompt));
    }
    if (position - spec.prompt_len < params.min_tokens &&
        (mask.empty() || AllowsMoreThan(spec.end_ids, mask))) {
      for (const TokenId id : spec.end_ids) {
        if (Known(id)) row_[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  if (mask.empty()) return adjusted;
  CopyAllowed(mask, adjusted, row_);
  return row_;
}

bool LogitAdjuster::AllowsMoreThan(std::span<const TokenId> end_ids,
                                   std::span<const uint32_t> mask) const {
  for (size_t w = 0; w < mask.size() && w * kMaskBits < row_.size(); ++w) {
    const size_t ids = std::min(kMaskBits, row_.size() - w * kMaskBits);
    uint32_t left = mask[w] & (~0U >> (kMaskBits - ids));
    for (size_t i = 0; left != 0 && i < end_ids.size(); ++i) {
      const TokenId id = end_ids[i];
      if (Known(id) && static_cast<size_t>(id) / kMaskBits == w) left &= ~(1U << (id % kMaskBits));
    }
    if (left != 0) return true;
  }
  return false;
}

void LogitAdjuster::Penalise(const SamplingParams& params, std::span<const TokenId> prompt,
                             std::span<const TokenId> generated) {
  const float repetition = params.repetition_penalty;
  if (repetition == 1.0F) prompt = {};
  for (const TokenId id : prompt) {
    if (Known(id)) pending_[static_cast<size_t>(id)] = 1;
  }
  for (const TokenId id : generated) {
    if (!Known(id)) continue;
    pending_[static_cast<size_t>(id)] = 1;
    ++generated_[static_cast<size_t>(id)];
  }
  for (const std::span<const TokenId> part : {prompt, generated}) {
    for (const TokenId id : part) {
      if (!Known(id) || pending_[static_cast<size_t>(id)] == 0) continue;
      float& logit = row_[static_cast<size_t>(id)];
      int32_t& times = generated_[static_cast<size_t>(id)];
      logit = logit > 0.0F ? logit / repetition : logit * repetition;
      if (times > 0) {
        const float frequency = params.frequency_penalty * static_cast<float>(times);
        logit = (logit - frequency) - params.presence_penalty;
      }
      times = 0;
      pending_[static_cast<size_t>(id)] = 0;
    }
  }
}

TypicalFilter::TypicalFilter(int vocab_size)
    : keys_(static_cast<size_t>(vocab_size)),
      order_(static_cast<size_t>(vocab_size)),
      ranks_(static_cast<size_t>(vocab_size)) {}

void TypicalFilter::Apply(std::span<const float> logits, float max, float temperature,
                          float typical_p, std::span<float> weights) {
  const size_t vocab = logits.size();
  const auto exponent = [&](size_t i) { return double{(logits[i] - max) / temperature}; };
  size_t left = 0;
  for (const float w : weights) left += w > 0.0F ? 1 : 0;
  const double total = SumInBlocks(vocab, [&](size_t i) { return double{weights[i]}; });
  const double mean =
      SumInBlocks(
          vocab,
          [&](size_t i) { return weights[i] > 0.0F ? double{weights[i]} * exponent(i) : 0.0; }) /
      total;
  for (size_t i = 0; i < vocab; ++i) {
    keys_[i] = weights[i] > 0.0F ? -static_cast<float>(std::fabs(mean - exponent(i)))
                                 : -std::numeric_limits<float>::infinity();
  }
  order_.Begin(keys_, 0.0F);

  const double enough = double{typical_p} * total;
  double sum = 0;
  size_t kept = 0;
  const auto keep_up_to = [&](size_t most) {
    while (kept < most && (kept == 0 || sum < enough)) {
      if (kept >= order_.sorted()) order_.Ensure(std::min(most, std::max(kFirstSorted, kept * 2)));
      sum += double{weights[static_cast<size_t>(order_[kept++].id)]};
    }
  };
  keep_up_to(std::min(left, kMostSorted));
  if (kept < left && sum < enough) {
    float least = 0.0F;  // The key of the least typical token.
    for (size_t i = 0; i < vocab; ++i)
      least = weights[i] > 0.0F ? std::min(least, keys_[i]) : least;
    ranks_.Begin(keys_, 0.0F, std::max(-least, kLeastWidth));
    ranks_.Sum(weights, 0.0F, RankBuckets::All());
    if (const auto cut = ranks_.Reach(enough, 0.0)) {
      ranks_.KeepWeights(*cut, weights);
      return;
    }
    keep_up_to(left);
  }
  order_.KeepWeights(kept, keys_, weights);
}

Sampler::Sampler(const kernels::Kernels* kernels, int vocab_size)
    : kernels_(kernels),
      adjuster_(vocab_size),
      typical_(vocab_size),
      order_(static_cast<size_t>(vocab_size)),
      ranks_(static_cast<size_t>(vocab_size)),
      weights_(static_cast<size_t>(vocab_size)),
      scratch_(static_cast<size_t>(vocab_size)) {}

bool Sampler::NeedsOnlyLargest(const core::SampleSpec& spec) {
  return !(spec.params.temperature > 0.0F) && spec.num_logprobs < 0 &&
         !LogitAdjuster::InUse(spec.params);
}

void Sampler::Sample(std::span<const float> logits, const core::SampleSpec& spec,
                     std::span<const TokenId> ids, int64_t position, std::span<const uint32_t> mask,
                     core::Sampled* out) {
  ordered_ = nullptr;
  out->token =
      Draw(adjuster_.Adjust(logits, spec, ids, position, mask), spec, position, &out->invalid);
  if (spec.num_logprobs >= 0) {
    ReportLogprobs(logits, out->token, &out->logprob, out->top_logprobs);
  }
}

void Sampler::Score(std::span<const float> logits, core::Scored* out) {
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
  // If nothing was adjusted, the draw may have ordered this row already.
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

TokenId Sampler::Draw(std::span<const float> logits, const core::SampleSpec& spec, int64_t position,
                      bool* invalid) {
  const SamplingParams& params = spec.params;
  const TokenId best = kernels_->argmax(logits.data(), static_cast<int>(logits.size()));
  const float max = logits[static_cast<size_t>(best)];
  *invalid = !(max > -std::numeric_limits<float>::infinity());
  if (!(params.temperature > 0.0F) || !std::isfinite(max)) return best;

  const double u = base::SampleUniform(spec.seed, spec.choice, static_cast<uint64_t>(position));
  ComputeWeights(logits, max, params.temperature);
  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  const bool sorted = top_k || params.top_p < 1.0F;
  if (sorted) Order(logits, max);
  if (params.typical_p < 1.0F) {
    if (top_k) KeepTopK(logits, max, static_cast<size_t>(params.top_k));
    typical_.Apply(logits, max, params.temperature, params.typical_p, weights_);
  }
  return sorted ? DrawSorted(logits, params, max, u) : DrawInIdOrder(params, u);
}

void Sampler::KeepTopK(std::span<const float> logits, float max, size_t k) {
  if (k > kMostSorted) {
    BeginBuckets(logits, max);
    ranks_.KeepWeights(ranks_.First(k), weights_);
  } else {
    order_.Ensure(k);
    order_.KeepWeights(k, scratch_, weights_);
  }
}

void Sampler::BeginBuckets(std::span<const float> logits, float max) {
  float least = max;  // The least logit with a weight.
  for (size_t i = 0; i < logits.size(); ++i) {
    least = weights_[i] > 0.0F ? std::min(least, logits[i]) : least;
  }
  ranks_.Begin(logits, max, std::max(max - least, kLeastWidth));
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
  TokenId last = 0;  // The last one with a weight, in case rounding leaves `sum` below `target`.
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

TokenId Sampler::DrawSorted(std::span<const float> logits, const SamplingParams& params, float max,
                            double u) {
  const size_t vocab = logits.size();
  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < vocab;
  const size_t most = top_k ? static_cast<size_t>(params.top_k) : vocab;
  size_t kept = 0;
  // With top_k, top_p refers to the sum of all k.
  if (most <= kMostSorted || !top_k) kept = KeptByTopP(params, most, kMostSorted);
  if (kept == 0) {
    if (const auto token = DrawInBuckets(logits, params, max, u)) return *token;
    kept = KeptByTopP(params, most, most);
  }
  return DrawFirst(params, kept, u);
}

size_t Sampler::KeptByTopP(const SamplingParams& params, size_t most, size_t limit) {
  const bool whole = most <= limit;
  if (!(params.top_p < 1.0F)) {
    if (whole) order_.Ensure(most);
    return whole ? most : 0;
  }
  const auto weight = [this](size_t rank) {
    return double{weights_[static_cast<size_t>(order_[rank].id)]};
  };
  double total = 0;
  if (most == weights_.size()) {
    total = TotalWeight();
  } else {
    order_.Ensure(most);
    for (size_t rank = 0; rank < most; ++rank) total += weight(rank);
  }
  const double enough = double{params.top_p} * total;
  double sum = 0;
  for (size_t rank = 0; rank < std::min(most, limit); ++rank) {
    if (rank >= order_.sorted()) order_.Ensure(std::min(most, std::max(kFirstSorted, rank * 2)));
    sum += weight(rank);
    if (sum >= enough) return rank + 1;
  }
  return whole ? most : 0;
}

std::optional<TokenId> Sampler::DrawInBuckets(std::span<const float> logits,
                                              const SamplingParams& params, float max, double u) {
  BeginBuckets(logits, max);
  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  RankBuckets::Cut kept =
      top_k ? ranks_.First(static_cast<size_t>(params.top_k)) : RankBuckets::All();
  const double unsure = 2 * ranks_.error();  // The total is summed in another order.
  if (params.top_p < 1.0F) {
    ranks_.Sum(weights_, 0.0F, kept);
    const double enough = double{params.top_p} * (top_k ? ranks_.total() : TotalWeight());
    const auto cut = ranks_.Reach(enough, top_k ? unsure * enough : 0.0);
    if (!cut) return std::nullopt;
    kept = *cut;
  }
  const float least = std::min(params.min_p, 1.0F) * ranks_.Largest(weights_, kept);
  ranks_.Sum(weights_, least, kept);
  const double target = u * ranks_.total();
  const auto cut = ranks_.Reach(target, unsure * target);
  if (!cut) return std::nullopt;
  return ranks_.LastOf(*cut);
}

TokenId Sampler::DrawFirst(const SamplingParams& params, size_t kept, double u) {
  const auto weight = [this](size_t rank) {
    return double{weights_[static_cast<size_t>(order_[rank].id)]};
  };
  // Weights fall along the order except for the last bit of exp, hence every one is compared.
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

}  // namespace ropeway::sampling
