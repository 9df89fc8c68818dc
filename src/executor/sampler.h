// Draws the next token from a row of logits.
#ifndef ROPEWAY_EXECUTOR_SAMPLER_H_
#define ROPEWAY_EXECUTOR_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"
#include "kernels/kernels.h"

namespace ropeway {

// Samples one row at a time. What it returns is a pure function of (logits, spec, position), to the
// bit on every machine: float operations are IEEE ones in a fixed order, exp and log the kernels'
// own.
//
// Let l be the logits, a NaN counting as minus infinity, and m their maximum.
//  1. temperature 0, or m not finite: the token of the largest logit, ties to the lowest id. Else:
//  2. Weight of token i: w[i] = exp((l[i] - m) / temperature) in float, 0 where the exponent is
//  below
//     -87. (The probability is w[i] over the sum of all; the best token's weight is 1.)
//  3. The order of tokens: logit descending, ties by id ascending.
//     top_k (1 <= k < vocabulary) keeps the first k of it.
//  4. top_p (< 1) keeps the shortest beginning of what top_k left whose weights add up to at least
//     top_p times the weights of all that top_k left; at least one token.
//  5. min_p (> 0) then drops tokens with w[i] < min_p; never the best one.
//  6. u = SampleUniform(seed, choice, position) picks the first token, in the order of step 3, at
//  which
//     the sum of the kept weights exceeds u times their total. Where neither top_k nor top_p is in
//     use, ids ascending are the order instead, which needs no sorting.
// Sums are in double, in that order; a sum over the whole vocabulary adds up blocks of 1024 ids,
// each as eight interleaved sums s0..s7 joined as ((s0+s4)+(s2+s6))+((s1+s5)+(s3+s7)).
//
// Log-probabilities are of the raw distribution: l[i] - log_sum_exp(l).
//
// Thread rule: one sampler per thread; it only keeps memory for the next call.
class Sampler {
 public:
  // The scratch memory is for rows of `vocab_size` logits.
  Sampler(const Kernels* kernels, int vocab_size);

  // Draws the token at `position` (that of the new token) and writes `out->token`, `out->logprob`
  // and `out->top_logprobs` (as many as it is long on entry; so nothing is allocated here).
  // REQUIRES: logits.size() == vocab_size.
  void Sample(std::span<const float> logits, const SampleSpec& spec, int64_t position,
              Sampled* out);

 private:
  struct Candidate {
    float logit;
    TokenId id;
  };

  TokenId Draw(std::span<const float> logits, const SampleSpec& spec, int64_t position);
  TokenId DrawInIdOrder(float min_p, double u);
  TokenId DrawSorted(std::span<const float> logits, const SamplingParams& params, double u);

  void ComputeWeights(std::span<const float> logits, float max, float temperature);
  double TotalWeight() const;

  // Begins the sorted order of `logits`, of which nothing is sorted yet.
  void BeginOrder(std::span<const float> logits, float max);
  // Makes at least the first `count` (<= vocab size) entries of sorted_ valid.
  void EnsureSorted(std::span<const float> logits, size_t count);

  const Kernels* kernels_;
  std::vector<float> weights_;        // By id.
  std::vector<Candidate> sorted_;     // A beginning of the order; only grows until BeginOrder.
  std::vector<int32_t> bucket_size_;  // Tokens by their logit's distance from the maximum.
  size_t buckets_sorted_ = 0;         // Those of the first so many buckets are in sorted_.
  float order_max_ = 0.0F;
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_SAMPLER_H_
