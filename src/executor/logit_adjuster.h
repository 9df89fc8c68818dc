// What a request adds to or takes off its logits before a token is drawn: biases, penalties and the
// tokens that are forbidden for now.
#ifndef ROPEWAY_EXECUTOR_LOGIT_ADJUSTER_H_
#define ROPEWAY_EXECUTOR_LOGIT_ADJUSTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"

namespace ropeway {

// For each token, in this order, each operation one rounding to float:
//  1. logit_bias: l = l + bias, for each entry that names the token.
//  2. repetition_penalty r, if the token is among `ids`: l = l / r where l > 0, else l = l * r
//     (Keskar et al. 2019, section 4.1, with the sign seen to).
//  3. If the token was generated n >= 1 times (`ids` from spec.prompt_len on):
//     l = (l - frequency_penalty * n) - presence_penalty.
//  4. While fewer than min_tokens were generated: l = minus infinity for spec.end_ids.
// A NaN stays one, and what overflows is infinite: Sampler says what becomes of these.
//
// Everything is counted from `ids` in each call: no state is kept between steps, so a resumed
// sequence has nothing to rebuild.
//
// Thread rule: one adjuster per thread; it only keeps memory for the next call.
class LogitAdjuster {
 public:
  explicit LogitAdjuster(int vocab_size);

  // Whether any of the above is in use at all; if not, a row is its own adjusted row.
  static bool InUse(const SamplingParams& params);
  // Whether `ids` are looked at.
  static bool NeedsIds(const SamplingParams& params);

  // The adjusted row: `logits` itself where nothing changes, else valid until the next call.
  // `position`: that of the token to be drawn. `ids`: those at the positions before it, where
  // NeedsIds. Ids beyond the vocabulary, which admission refuses, have no effect.
  // REQUIRES: logits.size() == vocab_size.
  std::span<const float> Adjust(std::span<const float> logits, const SampleSpec& spec,
                                std::span<const TokenId> ids, int64_t position);

 private:
  bool Known(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < row_.size(); }
  void Penalise(const SamplingParams& params, std::span<const TokenId> prompt,
                std::span<const TokenId> generated);

  std::vector<float> row_;
  std::vector<int32_t> generated_;  // By id; all 0 between calls.
  std::vector<uint8_t> pending_;    // By id: still to be penalised; likewise.
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_LOGIT_ADJUSTER_H_
