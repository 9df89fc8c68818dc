#include "model/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace ropeway::model {
namespace {

double RelativeError(double got, double want) {
  return want == 0.0 ? std::fabs(got) : std::fabs(got / want - 1.0);
}

TEST(PortableMathTest, ExpAndLogAgreeWithTheCLibrary) {
  for (double x = -690.0; x <= 690.0; x += 0.7331) {
    EXPECT_LT(RelativeError(PortableExp(x), std::exp(x)), 2e-15) << x;
  }
  for (double x = 1e-9; x < 1e15; x *= 1.0931) {
    EXPECT_NEAR(PortableLog(x), std::log(x), 3e-15 * std::max(1.0, std::fabs(std::log(x)))) << x;
  }
  EXPECT_EQ(PortableExp(0.0), 1.0);
  EXPECT_EQ(PortableLog(1.0), 0.0);
  EXPECT_LT(RelativeError(PortablePow(10000.0, -0.71875), std::pow(10000.0, -0.71875)), 1e-14);
}

TEST(PortableMathTest, SineAndCosineAgreeWithTheCLibraryUpToAMillionAndBeyond) {
  for (double x = 1e-6; x < 2.6e8; x *= 1.00071) {
    for (const double at : {x, -x}) {
      const SinCos got = PortableSinCos(at);
      EXPECT_LT(RelativeError(got.sin, std::sin(at)), 1e-12) << at;
      EXPECT_LT(RelativeError(got.cos, std::cos(at)), 1e-12) << at;
    }
  }
  // Next to the zeros, where a careless reduction loses all digits.
  for (double n = 1; n < 600000; n += 137) {
    const double at = n * 1.5707963267948966;
    EXPECT_LT(RelativeError(PortableSinCos(at).sin, std::sin(at)), 1e-12) << at;
    EXPECT_LT(RelativeError(PortableSinCos(at).cos, std::cos(at)), 1e-12) << at;
  }
}

RopeParams Params(int dim) {
  RopeParams params;
  params.dim = dim;
  return params;
}

TEST(RopeTest, LongRopeDividesByItsFactorsAlone) {
  RopeParams params = Params(16);
  params.scaling = RopeScaling::kLongRope;
  params.original_context_length = 64;
  params.factor = 4.0;  // Of no meaning here.
  params.attention_factor = 1.25;
  const std::vector<float> factors = {1, 1.5, 2, 3, 4, 8, 16, 32};
  const std::vector<double> frequencies = RopeFrequencies(params, factors);
  for (int i = 0; i < 8; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_LT(RelativeError(frequencies[at], std::pow(10000.0, -2.0 * i / 16) / factors[at]),
              1e-13);
  }
  EXPECT_EQ(RopeMagnitude(params), 1.25);
}

// The ramp of YaRN begins and ends between pairs where the model says so.
TEST(RopeTest, YarnRampsMayEndWithinAPair) {
  RopeParams params = Params(64);
  params.scaling = RopeScaling::kYarn;
  params.factor = 32.0;
  params.freq_base = 150000.0;
  params.original_context_length = 4096;
  const std::vector<double> rounded = RopeFrequencies(params, {});
  params.yarn_whole_pairs = false;
  const std::vector<double> exact = RopeFrequencies(params, {});
  const auto pair = [](double turns) {
    return 64 * std::log(4096 / (turns * 2 * 3.141592653589793)) / (2 * std::log(150000.0));
  };
  const double first = pair(32.0);
  const double last = pair(1.0);
  bool differ = false;
  for (int i = 0; i < 32; ++i) {
    const double plain = std::pow(150000.0, -2.0 * i / 64);
    const double ramp = std::min(1.0, std::max(0.0, (i - first) / (last - first)));
    const auto at = static_cast<size_t>(i);
    EXPECT_LT(RelativeError(exact[at], plain / 32 * ramp + plain * (1 - ramp)), 1e-12) << i;
    differ = differ || exact[at] != rounded[at];
  }
  EXPECT_TRUE(differ);
}

TEST(RopeTest, PlainTableIsTheFormulaRoundedOnce) {
  RopeParams params = Params(64);
  params.freq_base = 100000.0;
  const std::vector<double> frequencies = RopeFrequencies(params, {});
  std::vector<float> row(64);
  for (const int position : {0, 1, 17, 8191, 131071}) {
    FillRopeRow(frequencies, RopeMagnitude(params), position, row.data());
    for (int i = 0; i < 32; ++i) {
      const double angle = position * std::pow(100000.0, -2.0 * i / 64);
      const auto at = static_cast<size_t>(i);
      // One unit in the last place allows for the rounding of a value next to a tie.
      EXPECT_NEAR(row[at], std::cos(angle), 6.1e-8) << position << " " << i;
      EXPECT_NEAR(row[at + 32], std::sin(angle), 6.1e-8) << position << " " << i;
    }
  }
}

TEST(RopeTest, LinearScalingStretchesPositions) {
  RopeParams params = Params(32);
  const std::vector<double> plain = RopeFrequencies(params, {});
  params.scaling = RopeScaling::kLinear;
  params.factor = 4.0;
  const std::vector<double> linear = RopeFrequencies(params, {});
  ASSERT_EQ(linear.size(), 16U);
  for (size_t i = 0; i < 16; ++i) EXPECT_DOUBLE_EQ(linear[i] * 4.0, plain[i]);
  EXPECT_EQ(RopeMagnitude(params), 1.0);
}

TEST(RopeTest, DivisorsApplyToEachPair) {
  const RopeParams params = Params(8);
  const std::vector<double> plain = RopeFrequencies(params, {});
  const std::vector<float> divisors = {1.0F, 2.0F, 8.0F, 32.0F};
  const std::vector<double> got = RopeFrequencies(params, divisors);
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(got[i] * divisors[i], plain[i]);
}

// Computed by hand from YaRN's section 3.2 with s = 4, L = 2048, d = 64, b = 10000: pairs up to
// floor(8.06) = 8 keep their frequency, those from ceil(20.10) = 21 on are divided by 4.
TEST(RopeTest, YarnKeepsFastPairsAndStretchesSlowOnes) {
  RopeParams params = Params(64);
  const std::vector<double> plain = RopeFrequencies(params, {});
  params.scaling = RopeScaling::kYarn;
  params.factor = 4.0;
  params.original_context_length = 2048;
  const std::vector<double> yarn = RopeFrequencies(params, {});
  for (size_t i = 0; i <= 8; ++i) EXPECT_DOUBLE_EQ(yarn[i], plain[i]) << i;
  for (size_t i = 21; i < 32; ++i) EXPECT_DOUBLE_EQ(yarn[i], plain[i] / 4.0) << i;
  const double ramp = 5.0 / 13.0;
  EXPECT_NEAR(yarn[13], plain[13] * (ramp / 4.0 + 1.0 - ramp), 1e-15);
  EXPECT_NEAR(RopeMagnitude(params), 0.1 * std::log(4.0) + 1.0, 1e-15);
  params.attention_factor = 0.5;
  EXPECT_NEAR(RopeMagnitude(params), 0.05 * std::log(4.0) + 0.5, 1e-15);
}

// The bits must be the same on every machine; the digest is FNV-1a.
TEST(RopeTest, TableBitsAreTheSameEverywhere) {
  RopeParams params = Params(64);
  params.freq_base = 100000.0;
  params.scaling = RopeScaling::kYarn;
  params.factor = 8.0;
  params.original_context_length = 1024;
  const std::vector<double> frequencies = RopeFrequencies(params, {});
  std::vector<float> row(64);
  uint64_t digest = 0xCBF29CE484222325U;
  for (int position = 0; position < 8192; ++position) {
    FillRopeRow(frequencies, RopeMagnitude(params), position, row.data());
    for (const float value : row) {
      digest = (digest ^ std::bit_cast<uint32_t>(value)) * 0x100000001B3U;
    }
  }
  EXPECT_EQ(digest, 0xB24AF2A45DF173E5U);
}

}  // namespace
}  // namespace ropeway::model
