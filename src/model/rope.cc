#include "model/rope.h"

#include <algorithm>
#include <cmath>

#include "model/portable_math.h"

namespace ropeway {
namespace {

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
    first = std::max(0.0, std::floor(PairThatTurns(p, p.beta_fast)));
    last = std::min(p.dim - 1.0, std::ceil(PairThatTurns(p, p.beta_slow)));
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

}  // namespace ropeway
