// Draws the next token from a row of logits: adjusting them, ordering and filtering tokens,
// drawing.
#ifndef ROPEWAY_SAMPLING_SAMPLER_H_
#define ROPEWAY_SAMPLING_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/batch.h"
#include "kernels/kernels.h"
#include "sampling/token_order.h"

namespace ropeway::sampling {

// Applies what a request adds to or takes off its logits before a token is drawn: biases, penalties
// and the tokens that are forbidden for now.
//
// A mask has bit (id & 31) of word id >> 5 set for each token that it allows. Ids beyond its words
// are not allowed; bits beyond the vocabulary have no effect. An empty span is no mask.
//
// For each token, in this order, each operation one rounding to float:
//  1. logit_bias: l = l + bias, for each entry that names the token.
//  2. repetition_penalty r, if the token is among `ids`: l = l / r where l > 0, else l = l * r
//     (Keskar et al. 2019, section 4.1, extended to negative logits).
//  3. If the token was generated n >= 1 times (`ids` from spec.prompt_len on):
//     l = (l - frequency_penalty * n) - presence_penalty.
//  4. While fewer than min_tokens were generated: l = minus infinity for spec.end_ids, unless there
//     is a mask that allows no token outside of spec.end_ids: a complete text has to end.
//  5. If there is a mask: l = minus infinity for all ids that it does not allow.
// NaN stays NaN, and an overflow gives infinity; Sampler defines how it treats them.
//
// Counts are made from `ids` in each call. No state is kept between steps, so a resumed sequence
// has nothing to rebuild.
//
// Thread rule: one adjuster per thread; it keeps scratch memory only.
class LogitAdjuster {
 public:
  explicit LogitAdjuster(int vocab_size);

  // Whether any of the above but a mask applies; if none does, Adjust returns the row itself.
  static bool InUse(const SamplingParams& params);
  // Whether Adjust reads `ids`.
  static bool NeedsIds(const SamplingParams& params);

  // Returns the adjusted row: `logits` itself if nothing changes, else a row that is valid until
  // the next call. `position`: of the token to be drawn. `ids`: those at the positions before it,
  // if NeedsIds. Ids beyond the vocabulary, which admission rejects, have no effect. REQUIRES:
  // logits.size() == vocab_size.
  std::span<const float> Adjust(std::span<const float> logits, const core::SampleSpec& spec,
                                std::span<const TokenId> ids, int64_t position,
                                std::span<const uint32_t> mask);

 private:
  bool Known(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < row_.size(); }
  void Penalise(const SamplingParams& params, std::span<const TokenId> prompt,
                std::span<const TokenId> generated);
  // Whether the mask allows a token that is not in `end_ids`.
  bool AllowsMoreThan(std::span<const TokenId> end_ids, std::span<const uint32_t> mask) const;

  std::vector<float> row_;
  std::vector<int32_t> generated_;  // By id; all 0 between calls.
  std::vector<uint8_t> pending_;    // By id: still to be penalised; all 0 between calls.
};

// Locally typical sampling (Meister, Pimentel, Wiher and Cotterell 2023, "Locally Typical
// Sampling", section 3): of a distribution, keep the tokens whose surprisal is nearest to the
// entropy.
//
// Thread rule: one filter per thread; it keeps scratch memory only.
class TypicalFilter {
 public:
  explicit TypicalFilter(int vocab_size);

  // `weights`: w[i] = exp(x[i]), x[i] = (logits[i] - max) / temperature in float, or 0 for a token
  // that is already excluded; not all 0. Sets the weights of tokens that are not typical to 0.
  //
  // With W the sum of all weights, p = w / W, the surprisal -ln p[i] is ln W - x[i], and the
  // entropy is ln W - E, E being the mean of x under p. So their distance is |E - x[i]|, without a
  // logarithm. E = (sum of w[i] * x[i]) / W in double (in the order of SumInBlocks, products
  // exact); the distance is rounded to float. In the order of distances ascending, ties by id
  // ascending, the shortest prefix is kept whose weights add up (in double) to at least
  // typical_p * W.
  void Apply(std::span<const float> logits, float max, float temperature, float typical_p,
             std::span<float> weights);

 private:
  std::vector<float> keys_;  // By id: the distance, negated.
  TokenOrder order_;
  RankBuckets ranks_;
};

// Samples one row at a time. The outcome is a pure function of (logits, spec, ids, position, mask),
// with the same bits on every machine: float operations are IEEE ones in a fixed order, exp and log
// the kernels' own. docs/numerics.md has the same as a table.
//
// Let l be the logits after biases, penalties, forbidden tokens and the mask (LogitAdjuster), a NaN
// counting as minus infinity, and m their maximum.
//  1. m = minus infinity: no token can be drawn, the outcome is `invalid`. temperature 0, or m =
//     infinity: the token of the largest logit, ties to the lowest id. Else:
//  2. Weight of token i: w[i] = exp((l[i] - m) / temperature) in float, 0 where the exponent is
//     below -87. (The probability is w[i] over the sum of all; the best token's weight is 1.)
//  3. The order of tokens: logit descending, ties by id ascending.
//     top_k (1 <= k < vocabulary) keeps the first k of it.
//  4. typical_p (< 1) keeps the most typical tokens of what top_k left (TypicalFilter).
//  5. top_p (< 1) keeps the shortest prefix of what is left, in the order of step 3, whose
//     weights add up to at least top_p times the weights of all that is left; at least one token.
//  6. min_p (> 0) then drops tokens with w[i] < min_p * (the largest weight that step 5 left): in
//     float; so never all.
//  7. u = SampleUniform(seed, choice, position) picks the first token, in the order of step 3, at
//     which the sum of the kept weights exceeds u times their total. Where neither top_k nor top_p
//     is in use, ids ascending are the order instead, which needs no sorting.
// Sums are in double, in that order; a sum over the whole vocabulary is in the order of
// SumInBlocks.
//
// Log-probabilities are of the raw distribution, before all this: with r the raw logits,
// r[i] - log_sum_exp(r); the most probable ones in the order r descending, ties by id ascending.
//
// Thread rule: one sampler per thread; it keeps scratch memory only.
class Sampler {
 public:
  Sampler(const kernels::Kernels* kernels, int vocab_size);

  // Whether the outcome without a mask is only the token of the largest logit, ties to the lowest
  // id.
  static bool NeedsOnlyLargest(const core::SampleSpec& spec);

  // Draws the token at `position` and writes `out->token`, `out->invalid`, `out->logprob` and all
  // of `out->top_logprobs`, whose size the caller has set; so nothing is allocated here. `ids`:
  // those at the positions before, if LogitAdjuster::NeedsIds(spec.params). `mask`: see
  // LogitAdjuster; empty: every token may be drawn.
  // REQUIRES: logits.size() == vocab_size.
  void Sample(std::span<const float> logits, const core::SampleSpec& spec,
              std::span<const TokenId> ids, int64_t position, std::span<const uint32_t> mask,
              core::Sampled* out);

  // Writes the log-prob of `out->token` and all of `out->top_logprobs`, whose size the caller has
  // set. REQUIRES: logits.size() == vocab_size; 0 <= out->token < vocab_size.
  void Score(std::span<const float> logits, core::Scored* out);

 private:
  void Order(std::span<const float> logits, float max);
  TokenId Draw(std::span<const float> logits, const core::SampleSpec& spec, int64_t position,
               bool* invalid);
  TokenId DrawInIdOrder(const SamplingParams& params, double u);
  TokenId DrawSorted(std::span<const float> logits, const SamplingParams& params, float max,
                     double u);
  // How many of the order's first `most` entries top_p keeps, as far as the first `limit` entries
  // tell; 0: more than those. Sorts what it looks at.
  size_t KeptByTopP(const SamplingParams& params, size_t most, size_t limit);
  // Draws from the order's first `kept` entries, which are sorted.
  TokenId DrawFirst(const SamplingParams& params, size_t kept, double u);
  // Steps 5 to 7 with sums in buckets: the same outcome as by sorting; nullopt: rounding could
  // decide.
  std::optional<TokenId> DrawInBuckets(std::span<const float> logits, const SamplingParams& params,
                                       float max, double u);
  void BeginBuckets(std::span<const float> logits, float max);
  // Sets the weights of all but the first k tokens to 0.
  void KeepTopK(std::span<const float> logits, float max, size_t k);
  void ReportLogprobs(std::span<const float> logits, TokenId token, float* logprob,
                      std::span<TokenLogprob> top);

  void ComputeWeights(std::span<const float> logits, float max, float temperature);
  double TotalWeight() const;

  const kernels::Kernels* kernels_;
  LogitAdjuster adjuster_;
  TypicalFilter typical_;
  TokenOrder order_;                // Orders `ordered_` by logit.
  RankBuckets ranks_;               // By logit too.
  const float* ordered_ = nullptr;  // The row that order_ holds in this call, or nullptr.
  std::vector<float> weights_;      // By id.
  std::vector<float> scratch_;
};

}  // namespace ropeway::sampling

#endif  // ROPEWAY_SAMPLING_SAMPLER_H_
