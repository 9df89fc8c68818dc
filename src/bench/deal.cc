#include "bench/deal.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace ropeway {

std::vector<int> DealKinds(uint64_t seed, int count, const std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int> kinds;
  double upper = 0;
  for (size_t kind = 0; kind < shares.size(); ++kind) {
    upper += shares[kind];
    const auto end = static_cast<size_t>(std::lround(count * upper / sum));
    kinds.resize(end, static_cast<int>(kind));
  }
  SeededRandom random(seed);
  for (size_t i = kinds.size(); i > 1; --i) std::swap(kinds[i - 1], kinds[random.Below(i)]);
  return kinds;
}

}  // namespace ropeway
