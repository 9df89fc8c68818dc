#include "roofline/results.h"

#include <algorithm>

namespace ropeway {
namespace {

struct Sum {
  double seconds = 0;
  double bound_seconds = 0;
  double peak_seconds = 0;
  double ops = 0;

  void Add(const MatMulResult& result, const Limits& limits) {
    const double times = result.shape.count;
    seconds += times * result.timing.median;
    bound_seconds += times * result.timing.median * result.reached.share;
    peak_seconds +=
        times * (result.work.int8_ops / limits.int8_ops + result.work.f32_ops / limits.f32_ops);
    ops += times * result.ops();
  }
};

}  // namespace

std::vector<WeightedShare> WeightedShares(const std::vector<MatMulResult>& products,
                                          const Limits& limits) {
  std::vector<WeightedShare> shares;
  for (const MatMulResult& first : products) {
    const bool known = std::ranges::any_of(shares, [&first](const WeightedShare& share) {
      return share.model == first.model && share.rows == first.rows;
    });
    if (known) continue;
    Sum layers;
    Sum all;
    bool has_output = false;
    for (const MatMulResult& result : products) {
      if (result.model != first.model || result.rows != first.rows) continue;
      all.Add(result, limits);
      if (!result.shape.logits) layers.Add(result, limits);
      has_output = has_output || result.shape.logits;
    }
    const auto add = [&](const Sum& sum, bool with_output) {
      shares.push_back({first.model, first.rows, with_output, sum.ops / sum.seconds,
                        sum.peak_seconds / sum.seconds, sum.bound_seconds / sum.seconds});
    };
    add(layers, false);
    if (has_output) add(all, true);
  }
  return shares;
}

}  // namespace ropeway
