#include "bench/kernels/results.h"

#include <fmt/format.h>

#include <algorithm>

namespace ropeway {
namespace {

Range RangeOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {values[values.size() / 10], values[values.size() / 2], values[values.size() * 9 / 10]};
}

// get(result) of everything that was measured.
template <typename Get>
std::vector<double> OfAll(const Results& results, Get get) {
  std::vector<double> values;
  for (const PeakResult& result : results.peaks) get(result, &values);
  for (const MatMulResult& result : results.products) get(result, &values);
  for (const MatMulResult& result : results.logits) get(result, &values);
  for (const AttentionResult& result : results.attention) get(result, &values);
  return values;
}

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

Range BarrierRange(const Results& results) {
  return RangeOf(OfAll(results, [](const auto& result, std::vector<double>* values) {
    if constexpr (requires { result.conditions; }) {
      values->push_back(result.conditions.barrier_ns);
    } else {
      values->push_back(result.barrier_ns);
    }
  }));
}

Range SweepRange(const Results& results) {
  return RangeOf(OfAll(results, [](const auto& result, std::vector<double>* values) {
    if constexpr (requires { result.conditions; }) {
      values->push_back(result.conditions.sweep);
    } else if (result.what == "sweep") {
      values->push_back(result.per_second());
    }
  }));
}

Range SpreadRange(const Results& results) {
  return RangeOf(OfAll(results, [](const auto& result, std::vector<double>* values) {
    values->push_back((result.timing.most - result.timing.least) / result.timing.median);
  }));
}

std::string NameOf(const WeightedShare& share) {
  const std::string name = share.with_output ? "layers and output" : "layers";
  return share.missing == 0 ? name : fmt::format("{} less {}", name, share.missing);
}

std::vector<WeightedShare> WeightedShares(const Results& results) {
  const std::vector<MatMulResult>& products = results.products;
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
      all.Add(result, results.limits);
      if (!result.shape.logits) layers.Add(result, results.limits);
      has_output = has_output || result.shape.logits;
    }
    const auto add = [&](const Sum& sum, bool with_output) {
      const auto missing =
          std::ranges::count_if(results.products_left_out, [&](const ProductLeftOut& product) {
            return product.model == first.model && (with_output || !product.shape.logits);
          });
      shares.push_back({first.model, first.rows, with_output, sum.ops / sum.seconds,
                        sum.peak_seconds / sum.seconds, sum.bound_seconds / sum.seconds,
                        static_cast<int>(missing)});
    };
    if (layers.seconds > 0) add(layers, false);
    if (has_output) add(all, true);
  }
  return shares;
}

}  // namespace ropeway
