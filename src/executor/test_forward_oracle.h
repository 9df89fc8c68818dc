// For tests: a plain forward pass in double, one position after another, which shares nothing with
// the executor but the dequantised weights. It rounds K and V to f16, as the cache does: of a small
// model with random weights, that alone changes log-probs by up to a hundredth.
#ifndef ROPEWAY_EXECUTOR_TEST_FORWARD_ORACLE_H_
#define ROPEWAY_EXECUTOR_TEST_FORWARD_ORACLE_H_

#include <vector>

#include "executor/weights.h"
#include "ropeway/request.h"

namespace ropeway::executor {

// The logits after each of `tokens`: [tokens][vocabulary].
std::vector<std::vector<double>> OracleLogits(const Weights& weights,
                                              const std::vector<TokenId>& tokens);

// The last hidden states, after the final norm: [tokens][hidden_size].
std::vector<std::vector<double>> OracleHidden(const Weights& weights,
                                              const std::vector<TokenId>& tokens);

// The cosine of the angle between a and b, each with its mean taken off.
double CenteredCosine(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_TEST_FORWARD_ORACLE_H_
