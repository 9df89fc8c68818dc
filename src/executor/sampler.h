// Draws the next token from a row of logits.
#ifndef ROPEWAY_EXECUTOR_SAMPLER_H_
#define ROPEWAY_EXECUTOR_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"
#include "executor/logit_adjuster.h"
#include "executor/token_order.h"
#include "executor/typical_filter.h"
#include "kernels/kernels.h"

namespace ropeway {

// Samples one row at a time. What it returns is a pure function of (logits, spec, ids, position),
// to the bit on every machine: float operations are IEEE ones in a fixed order, exp and log the
// kernels' own. docs/numerics.md has the same as a table.
//
// Let l be the logits after biases, penalties and forbidden tokens (LogitAdjuster), a NaN counting
// as minus infinity, and m their maximum.
//  1. m = minus infinity: no token can be drawn, the outcome is `invalid`. temperature 0, or m =
//  plus
//     infinity: the token of the largest logit, ties to the lowest id. Else:
//  2. Weight of token i: w[i] = exp((l[i] - m) / temperature) in float, 0 where the exponent is
//     below -87. (The probability is w[i] over the sum of all; the best token's weight is 1.)
//  3. The order of tokens: logit descending, ties by id ascending.
//     top_k (1 <= k < vocabulary) keeps the first k of it.
//  4. typical_p (< 1) keeps the most typical tokens of what top_k left (TypicalFilter).
//  5. top_p (< 1) keeps the shortest beginning of what is left, in the order of step 3, whose
//     weights add up to at least top_p times the weights of all that is left; at least one token.
//  6. min_p (> 0) then drops tokens with w[i] < min_p * (the largest weight that step 5 left): in
//     float; so never all.
//  7. u = SampleUniform(seed, choice, position) picks the first token, in the order of step 3, at
//     which the sum of the kept weights exceeds u times their total. Where neither top_k nor top_p
//     is in use, ids ascending are the order instead, which needs no sorting.
// Sums are in double, in that order; a sum over the whole vocabulary is in the order of
// weight_sum.h.
//
// Log-probabilities are of the raw distribution, before all this: with r the raw logits,
// r[i] - log_sum_exp(r); the most probable ones in the order r descending, ties by id ascending.
//
// Thread rule: one sampler per thread; it only keeps memory for the next call.
class Sampler {
 public:
  // The scratch memory is for rows of `vocab_size` logits.
  Sampler(const Kernels* kernels, int vocab_size);

  // Whether the outcome is the token of the largest logit, ties to the lowest id, and nothing else.
  static bool NeedsOnlyLargest(const SampleSpec& spec);

  // Draws the token at `position` (that of the new token) and writes `out->token`, `out->invalid`,
  // `out->logprob` and `out->top_logprobs` (as many as it is long on entry; so nothing is allocated
  // here). `ids`: those at the positions before, where LogitAdjuster::NeedsIds(spec.params).
  // REQUIRES: logits.size() == vocab_size.
  void Sample(std::span<const float> logits, const SampleSpec& spec, std::span<const TokenId> ids,
              int64_t position, Sampled* out);

  // Writes the log-prob of `out->token` and, as many as it is long, `out->top_logprobs`.
  // REQUIRES: logits.size() == vocab_size; 0 <= out->token < vocab_size.
  void Score(std::span<const float> logits, Scored* out);

 private:
  void Order(std::span<const float> logits, float max);
  TokenId Draw(std::span<const float> logits, const SampleSpec& spec, int64_t position,
               bool* invalid);
  TokenId DrawInIdOrder(const SamplingParams& params, double u);
  TokenId DrawSorted(std::span<const float> logits, const SamplingParams& params, double u);
  void ReportLogprobs(std::span<const float> logits, TokenId token, float* logprob,
                      std::span<TokenLogprob> top);

  void ComputeWeights(std::span<const float> logits, float max, float temperature);
  double TotalWeight() const;

  const Kernels* kernels_;
  LogitAdjuster adjuster_;
  TypicalFilter typical_;
  TokenOrder order_;                // Of `ordered_`, by logit.
  const float* ordered_ = nullptr;  // The row that the present call has put in order so far.
  std::vector<float> weights_;      // By id.
  std::vector<float> scratch_;
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_SAMPLER_H_
