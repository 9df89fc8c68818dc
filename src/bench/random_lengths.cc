#include "bench/random_lengths.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ropeway {
namespace {

// Uniform in (0, 1].
double Uniform(Random* random) {
  return std::ldexp(static_cast<double>((random->Next64() >> 11) + 1), -53);
}

// Of a standard normal distribution (Box and Muller 1958).
double Normal(Random* random) {
  const double radius = std::sqrt(-2 * std::log(Uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(random));
}

}  // namespace

int DrawLength(Random* random, const LengthShape& shape) {
  const double drawn = shape.median * std::exp(shape.spread * Normal(random));
  return static_cast<int>(std::lround(std::clamp(drawn, shape.least, shape.most)));
}

std::vector<int> DrawLengths(uint64_t seed, int count, const LengthShape& shape) {
  SeededRandom random(seed);
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i) lengths.push_back(DrawLength(&random, shape));
  return lengths;
}

}  // namespace ropeway
