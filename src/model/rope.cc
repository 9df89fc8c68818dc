#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ropeway::model {
namespace {

// ln 2 in two parts; the first has 33 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42fef00000p-1;
constexpr double kLn2Low = 0x1.473de6af278edp-34;

// pi / 2 in parts of 24 bits and a rest: a product of one of the first three with an integer below
// 2^28 is exact (Cody & Waite 1980, ch. 8).
constexpr double kHalfPi1 = 0x1.921fb40000000p+0;
constexpr double kHalfPi2 = 0x1.4442d00000000p-24;
constexpr double kHalfPi3 = 0x1.8469880000000p-48;
constexpr double kHalfPi4 = 0x1.8cc51701b839ap-72;

// Taylor's series of sine and cosine for |r| <= pi / 4; the first term left out is below 1e-18.
SinCos SmallSinCos(double r) {
  const double z = r * r;
  double sin = 0.0;
  double cos = 0.0;
  for (int n = 17; n >= 3; n -= 2) sin = (1.0 - sin) * (z / ((n - 1) * n));
  for (int n = 18; n >= 2; n -= 2) cos = (1.0 - cos) * (z / ((n - 1) * n));
  return {r - r * sin, 1.0 - cos};
}

// The pair (as a real number) that turns `turns` times within the original context: YaRN (Peng et
// al. 2023), section 3.2, solved for the pair's index.
double PairThatTurns(const RopeParams& p, double turns) {
  constexpr double kTwoPi = 6.283185307179586;
  return p.dim * PortableLog(p.original_context_length / (turns * kTwoPi)) /
         (2.0 * PortableLog(p.freq_base));
}

}  // namespace

std::vector<double> RopeFrequencies(const RopeParams& p, std::span<const float> divisors) {
  const int pairs = p.dim / 2;
  std::vector<double> frequencies(static_cast<size_t>(pairs));
  double first = 0.0;
  double last = 0.0;
  if (p.scaling == RopeScaling::kYarn) {
    first = PairThatTurns(p, p.beta_fast);
    last = PairThatTurns(p, p.beta_slow);
    if (p.yarn_whole_pairs) {
      first = std::floor(first);
      last = std::ceil(last);
    }
    first = std::max(0.0, first);
    last = std::min(p.dim - 1.0, last);
  }
  for (int i = 0; i < pairs; ++i) {
    const auto at = static_cast<size_t>(i);
    // RoFormer (Su et al. 2021), section 3.2.2.
    double frequency = PortablePow(p.freq_base, -2.0 * i / p.dim);
    if (!divisors.empty()) frequency /= static_cast<double>(divisors[at]);
    const double stretched = frequency / p.factor;
    if (p.scaling == RopeScaling::kLinear) {
      frequency = stretched;  // Position interpolation (Chen et al. 2023), eq. 3.
    } else if (p.scaling == RopeScaling::kYarn) {
      // YaRN, section 3.2: from unstretched at `first` to fully stretched at `last`.
      const double ramp = std::clamp((i - first) / std::max(0.001, last - first), 0.0, 1.0);
      frequency = stretched * ramp + frequency * (1.0 - ramp);
    }
    frequencies[at] = frequency;
  }
  return frequencies;
}

double RopeMagnitude(const RopeParams& p) {
  // YaRN, section 3.3: both queries and keys are multiplied with sqrt(1 / t) = 0.1 ln(s) + 1.
  const double yarn = p.scaling == RopeScaling::kYarn ? 0.1 * PortableLog(p.factor) + 1.0 : 1.0;
  return p.attention_factor * yarn;
}

void FillRopeRow(std::span<const double> frequencies, double magnitude, int32_t position,
                 float* row) {
  const size_t pairs = frequencies.size();
  for (size_t i = 0; i < pairs; ++i) {
    const SinCos at = PortableSinCos(position * frequencies[i]);
    row[i] = static_cast<float>(at.cos * magnitude);
    row[pairs + i] = static_cast<float>(at.sin * magnitude);
  }
}

double PortableExp(double x) {
  const double k = std::rint(x / kLn2High);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0;
  for (int n = 16; n >= 1; --n) sum = 1.0 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

double PortableLog(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [1/2, 1)
  if (m < 0.7071067811865476) {
    m *= 2.0;
    --exponent;
  }
  // log m = 2 artanh s; s^2 < 0.03, so that s^25 is beyond a double's precision.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int n = 25; n >= 3; n -= 2) sum = z * (1.0 / n + sum);
  return exponent * kLn2High + (2.0 * s + (2.0 * s * sum + exponent * kLn2Low));
}

double PortablePow(double base, double exponent) {
  return PortableExp(exponent * PortableLog(base));
}

SinCos PortableSinCos(double x) {
  constexpr double kInverse = 0x1.45f306dc9c883p-1;  // 2 / pi
  const double n = std::rint(x * kInverse);
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3 - n * kHalfPi4;
  const SinCos small = SmallSinCos(r);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return small;
    case 1:
      return {small.cos, -small.sin};
    case 2:
      return {-small.sin, -small.cos};
    default:
      return {-small.cos, small.sin};
  }
}

StatusOr<std::unique_ptr<RopeTable>> RopeTable::Make(std::vector<double> frequencies,
                                                     double magnitude, int32_t positions) {
  const uint64_t bytes = Bytes(positions, static_cast<int32_t>(2 * frequencies.size()));
  StatusOr<base::PageArena> arena = base::PageArena::Make(static_cast<size_t>(bytes));
  if (!arena.ok()) return arena.status();
  return std::unique_ptr<RopeTable>(
      new RopeTable(std::move(frequencies), magnitude, positions, *std::move(arena)));
}

RopeTable::RopeTable(std::vector<double> frequencies, double magnitude, int32_t positions,
                     base::PageArena arena)
    : frequencies_(std::move(frequencies)),
      magnitude_(magnitude),
      positions_(static_cast<size_t>(positions)),
      arena_(std::move(arena)),
      filled_(new std::atomic<bool>[(positions_ + kGroup - 1) / kGroup]()) {}

void RopeTable::Fill(size_t group) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (filled_[group].load(std::memory_order_relaxed)) return;
  const size_t end = std::min((group + 1) * kGroup, positions_);
  for (size_t position = group * kGroup; position < end; ++position) {
    FillRopeRow(frequencies_, magnitude_, static_cast<int32_t>(position),
                rows() + position * row_floats());
  }
  filled_[group].store(true, std::memory_order_release);
}

}  // namespace ropeway::model
