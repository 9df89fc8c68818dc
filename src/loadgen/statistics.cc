#include "loadgen/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ropeway::loadgen {

double Quantile(const std::vector<double>& sorted, double p) {
  const double index = static_cast<double>(sorted.size() - 1) * p;
  const auto below = static_cast<size_t>(std::floor(index));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (index - std::floor(index)) * (sorted[above] - sorted[below]);
}

Distribution Describe(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  result.count = values.size();
  result.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  result.min = values.front();
  result.p50 = Quantile(values, 0.50);
  result.p90 = Quantile(values, 0.90);
  result.p99 = Quantile(values, 0.99);
  result.max = values.back();
  return result;
}

}  // namespace ropeway::loadgen
