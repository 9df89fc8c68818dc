// Lengths of texts, long-tailed as those of real users are.
#ifndef ROPEWAY_BENCH_RANDOM_LENGTHS_H_
#define ROPEWAY_BENCH_RANDOM_LENGTHS_H_

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace ropeway {

// Log-normal: `spread` is the standard deviation of the logarithm. What is drawn below `least` or
// above `most` is set to that bound.
struct LengthShape {
  double median = 64;
  double spread = 0.4;
  double least = 1;
  double most = 256;
};

// One length, in tokens. REQUIRES: 1 <= least <= most.
int DrawLength(Random* random, const LengthShape& shape);

// `count` of them, a function of `seed` alone.
std::vector<int> DrawLengths(uint64_t seed, int count, const LengthShape& shape);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_RANDOM_LENGTHS_H_
