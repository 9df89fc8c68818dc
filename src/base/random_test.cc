#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace ropeway::base {
namespace {

TEST(SeededRandomTest, GivesTheDocumentedNumbers) {
  // The published outputs of SplitMix64 for seed 1234567.
  SeededRandom random(1234567);
  EXPECT_EQ(random.Next64(), 6457827717110365317U);
  EXPECT_EQ(random.Next64(), 3203168211198807973U);
  EXPECT_EQ(random.Next64(), 9817491932198370423U);
}

TEST(RandomTest, StaysInRangeAndReachesAllOfIt) {
  SeededRandom random(1);
  std::array<int, 6> seen{};
  for (int i = 0; i < 6000; ++i) ++seen.at(static_cast<size_t>(random.Between(-2, 3) + 2));
  for (int n : seen) EXPECT_NEAR(n, 1000, 150);
  EXPECT_EQ(random.Below(1), 0U);
}

TEST(RandomTest, ChancesComeTrueAsOftenAsTheySay) {
  SeededRandom random(2);
  int hits = 0;
  for (int i = 0; i < 10000; ++i) hits += random.Chance(0.3) ? 1 : 0;
  EXPECT_NEAR(hits, 3000, 200);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(random.Chance(0));
    EXPECT_TRUE(random.Chance(1));
  }
}

TEST(SystemRandomTest, Differs) {
  SystemRandom random;
  EXPECT_NE(random.Next64(), random.Next64());
}

TEST(FaultPointsTest, OnlyEnabledPointsFireAndAreCounted) {
  SeededRandom random(3);
  FaultPoints faults(&random);
  EXPECT_FALSE(faults.Fires("slow_step"));
  faults.Enable("slow_step", 1);
  faults.Enable("never", 0);
  EXPECT_TRUE(faults.Fires("slow_step"));
  EXPECT_TRUE(faults.Fires("slow_step"));
  EXPECT_FALSE(faults.Fires("never"));
  EXPECT_EQ(faults.fired().at("slow_step"), 2U);
  EXPECT_EQ(faults.fired().at("never"), 0U);
  EXPECT_EQ(faults.fired().size(), 2U);
}

using Words = std::array<uint32_t, 4>;

// The known answers that the paper's authors publish with their code for philox4x32, 10 rounds.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  const uint32_t ones = 0xffffffffU;
  EXPECT_EQ(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(
      Philox4x32({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
      (Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(PhiloxTest, UniformUsesEveryPartOfItsArguments) {
  std::set<double> seen;
  for (uint64_t seed : {0ULL, 1ULL, 1ULL << 32, 1ULL << 63}) {
    for (uint32_t choice : {0U, 1U, 1U << 31}) {
      for (uint64_t position : {0ULL, 1ULL, 2ULL, 1ULL << 32}) {
        seen.insert(SampleUniform(seed, choice, position));
      }
    }
  }
  EXPECT_EQ(seen.size(), 4U * 3U * 4U);
}

TEST(PhiloxTest, UniformIsFromItsDocumentedBits) {
  // seed 0, choice 0, position 0 is the first known answer.
  const double expected = (double{0x6627e8d5U >> 5} * 0x1p26 + double{0xe169c58dU >> 6}) * 0x1p-53;
  EXPECT_EQ(SampleUniform(0, 0, 0), expected);
}

TEST(PhiloxTest, UniformIsUniform) {
  constexpr int kBins = 64;
  constexpr int kDraws = 64000;
  std::array<int, kBins> bins{};
  for (int i = 0; i < kDraws; ++i) {
    const double u = SampleUniform(42, 0, static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * kBins)];
  }
  double chi2 = 0;
  for (int count : bins) {
    const double d = count - double{kDraws} / kBins;
    chi2 += d * d / (double{kDraws} / kBins);
  }
  EXPECT_LT(chi2, 103.4);  // 63 degrees of freedom: exceeded with probability 0.001.
  EXPECT_GT(chi2, 30.0);   // Too even would be wrong as well.
}

}  // namespace

}  // namespace ropeway::base
