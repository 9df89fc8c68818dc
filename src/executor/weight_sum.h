// Sums over a whole vocabulary, in double and in one order: blocks of 1024 ids, each as eight
// interleaved sums s0..s7 joined as ((s0+s4)+(s2+s6))+((s1+s5)+(s3+s7)), the blocks added up in
// order.
#ifndef ROPEWAY_EXECUTOR_WEIGHT_SUM_H_
#define ROPEWAY_EXECUTOR_WEIGHT_SUM_H_

#include <algorithm>
#include <array>
#include <cstddef>

namespace ropeway {

inline constexpr size_t kSumBlock = 1024;
inline constexpr size_t kSumLanes = 8;

// The sum of term(i), a double, over [begin, begin + n).
template <typename Term>
double BlockSum(size_t begin, size_t n, Term term) {
  std::array<double, kSumLanes> s{};
  size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (size_t lane = 0; lane < kSumLanes; ++lane) s[lane] += term(begin + i + lane);
  }
  for (size_t lane = 0; i < n; ++i, ++lane) s[lane] += term(begin + i);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

// The sum of term(i) over [0, n).
template <typename Term>
double SumInBlocks(size_t n, Term term) {
  double total = 0;
  for (size_t begin = 0; begin < n; begin += kSumBlock) {
    total += BlockSum(begin, std::min(kSumBlock, n - begin), term);
  }
  return total;
}

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_WEIGHT_SUM_H_
