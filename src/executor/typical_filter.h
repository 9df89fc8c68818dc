// Locally typical sampling (Meister, Pimentel, Wiher and Cotterell 2023, "Locally Typical
// Sampling", section 3): of a distribution, keep the tokens whose surprisal is nearest to the
// entropy.
#ifndef ROPEWAY_EXECUTOR_TYPICAL_FILTER_H_
#define ROPEWAY_EXECUTOR_TYPICAL_FILTER_H_

#include <span>
#include <vector>

#include "executor/token_order.h"

namespace ropeway {

// Thread rule: one filter per thread; it only keeps memory for the next call.
class TypicalFilter {
 public:
  explicit TypicalFilter(int vocab_size);

  // `weights`: w[i] = exp(x[i]), x[i] = (logits[i] - max) / temperature in float, or 0 for a token
  // that is out already; not all 0. Sets those to 0 that are not typical.
  //
  // With W the sum of all weights, p = w / W, the surprisal -ln p[i] is ln W - x[i], and the
  // entropy is ln W - E, E being the mean of x under p. So their distance is |E - x[i]|: no
  // logarithm is taken. E = (sum of w[i] * x[i]) / W in double (weight_sum.h's order, products
  // exact), the distance is rounded to float. In the order of distances ascending, ties by id
  // ascending, the shortest beginning is kept whose weights add up (in double) to at least
  // typical_p times W.
  void Apply(std::span<const float> logits, float max, float temperature, float typical_p,
             std::span<float> weights);

 private:
  std::vector<float> keys_;  // By id: the distance, negated.
  TokenOrder order_;
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_TYPICAL_FILTER_H_
