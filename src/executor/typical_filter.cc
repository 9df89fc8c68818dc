#include "executor/typical_filter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/weight_sum.h"

namespace ropeway {
namespace {

constexpr size_t kFirstSortedTokens = 64;

}  // namespace

TypicalFilter::TypicalFilter(int vocab_size)
    : keys_(static_cast<size_t>(vocab_size)), order_(static_cast<size_t>(vocab_size)) {}

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
  while (kept < left && (kept == 0 || sum < enough)) {
    if (kept >= order_.sorted())
      order_.Ensure(std::min(left, std::max(kFirstSortedTokens, kept * 2)));
    sum += double{weights[static_cast<size_t>(order_[kept++].id)]};
  }
  order_.KeepWeights(kept, keys_, weights);
}

}  // namespace ropeway
