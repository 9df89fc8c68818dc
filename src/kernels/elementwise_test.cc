// Element-wise kernels and reductions: every table against the reference by bits, and exp, log and
// the rest against the C library in double precision.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "kernels/reference.h"
#include "kernels/test_util.h"

namespace ropeway::kernels::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> Vector(int n, Values values, uint32_t seed) {
  Rng rng(seed);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) value = Activation(values, rng);
  return x;
}

constexpr Values kAllValues[] = {Values::kNormal, Values::kExtreme, Values::kHostile,
                                 Values::kCancelling, Values::kAnyBits};

// `n` floats in the middle of others that must stay as they are, `shift` floats off a cache line.
class Guarded {
 public:
  Guarded(int n, int shift) : n_(n), shift_(shift), bytes_(sizeof(float) * Floats()) {
    std::fill(all(), all() + Floats(), kGuard);
  }
  explicit Guarded(const std::vector<float>& x, int shift)
      : Guarded(static_cast<int>(x.size()), shift) {
    std::copy(x.begin(), x.end(), data());
  }

  float* data() { return all() + kMargin + shift_; }
  std::vector<float> values() { return {data(), data() + n_}; }

  // The others are as they were.
  bool intact() {
    const auto guards = [](const float* begin, const float* end) {
      return std::all_of(begin, end, [](float x) { return x == kGuard; });
    };
    return guards(all(), data()) && guards(data() + n_, all() + Floats());
  }

 private:
  static constexpr int kMargin = 32;
  static constexpr float kGuard = 12345.0F;
  float* all() { return reinterpret_cast<float*>(bytes_.get()); }
  size_t Floats() const { return static_cast<size_t>(n_ + 3 * kMargin); }

  int n_;
  int shift_;
  AlignedBytes bytes_;
};

class ElementwiseTest : public TableTest {};

// Calls check(n, values, seed) for every length that can have a tail, long ones, and every kind of
// values.
template <typename Check>
void ForLengths(Check check) {
  uint32_t seed = 1;
  for (const Values values : kAllValues) {
    for (int n = 1; n <= 130; ++n) check(n, values, seed++);
    for (const int n : {576, 960, 1536, 1537, 2048, 8192, 8205}) check(n, values, seed++);
  }
}

TEST_P(ElementwiseTest, RmsNorm) {
  ForLengths([&](int n, Values values, uint32_t seed) {
    const auto x = Vector(n, values, seed);
    const auto weight = Vector(n, seed % 3 == 0 ? values : Values::kNormal, seed + 1000);
    const float eps = seed % 4 == 0 ? 0.0F : 1e-5F;
    std::vector<float> expected(x.size());
    reference_.rms_norm(x.data(), weight.data(), n, eps, expected.data());
    Guarded in(x, static_cast<int>(seed % 16));
    Guarded out(n, static_cast<int>(seed % 7));
    kernels_->rms_norm(in.data(), weight.data(), n, eps, out.data());
    ASSERT_TRUE(AllSameBits(expected, out.values())) << n;
    ASSERT_TRUE(out.intact() && in.intact()) << n;
  });
}

// `rope`: a rotation of heads by one row of cosines and sines.
void ExpectSameRotations(const Kernels& reference, const Kernels& kernels,
                         decltype(&Kernels::rope) rope) {
  uint32_t seed = 1;
  for (const int rope_dim : {2, 4, 6, 8, 10, 14, 16, 30, 32, 62, 64, 96, 100, 128}) {
    for (const int head_dim : {64, 128}) {
      if (rope_dim > head_dim) continue;
      for (const int heads : {1, 3, 9}) {
        for (const Values values : kAllValues) {
          seed += 2;
          const Values angles = seed % 5 == 0 ? values : Values::kNormal;
          const auto cos_sin = Vector(rope_dim, angles, seed);
          auto expected = Vector(heads * head_dim, values, seed + 1);
          Guarded actual(expected, static_cast<int>(seed % 16));
          (reference.*rope)(expected.data(), heads, head_dim, rope_dim, cos_sin.data());
          (kernels.*rope)(actual.data(), heads, head_dim, rope_dim, cos_sin.data());
          ASSERT_TRUE(AllSameBits(expected, actual.values())) << rope_dim << " " << heads;
          ASSERT_TRUE(actual.intact()) << rope_dim;
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, Rope) { ExpectSameRotations(reference_, *kernels_, &Kernels::rope); }

TEST_P(ElementwiseTest, LayerNorm) {
  ForLengths([&](int n, Values values, uint32_t seed) {
    const auto x = Vector(n, values, seed);
    const auto weight = Vector(n, seed % 3 == 0 ? values : Values::kNormal, seed + 1000);
    const auto bias = Vector(n, seed % 5 == 0 ? values : Values::kNormal, seed + 2000);
    const float eps = seed % 4 == 0 ? 0.0F : 1e-5F;
    std::vector<float> expected(x.size());
    reference_.layer_norm(x.data(), weight.data(), bias.data(), n, eps, expected.data());
    Guarded in(x, static_cast<int>(seed % 16));
    Guarded out(n, static_cast<int>(seed % 7));
    kernels_->layer_norm(in.data(), weight.data(), bias.data(), n, eps, out.data());
    ASSERT_TRUE(AllSameBits(expected, out.values())) << n;
    ASSERT_TRUE(out.intact() && in.intact()) << n;
  });
}

TEST_P(ElementwiseTest, RopeOfHalves) {
  ExpectSameRotations(reference_, *kernels_, &Kernels::rope_halves);
}

TEST_P(ElementwiseTest, OtherActivations) {
  ForLengths([&](int n, Values values, uint32_t seed) {
    const auto gate = Vector(n, values, seed);
    const auto up = Vector(n, values, seed + 1000);
    std::vector<float> expected(gate.size());
    for (const auto function : {&Kernels::geglu, &Kernels::swiglu_clamped}) {
      (reference_.*function)(gate.data(), up.data(), n, expected.data());
      Guarded into_gate(gate, static_cast<int>(seed % 16));
      (kernels_->*function)(into_gate.data(), up.data(), n, into_gate.data());
      ASSERT_TRUE(AllSameBits(expected, into_gate.values())) << n;
      Guarded into_up(up, static_cast<int>(seed % 5));
      (kernels_->*function)(gate.data(), into_up.data(), n, into_up.data());
      ASSERT_TRUE(AllSameBits(expected, into_up.values())) << n;
      ASSERT_TRUE(into_gate.intact() && into_up.intact()) << n;
    }
    for (const auto function : {&Kernels::gelu, &Kernels::exact_gelu}) {
      (reference_.*function)(gate.data(), n, expected.data());
      Guarded in_place(gate, static_cast<int>(seed % 11));
      (kernels_->*function)(in_place.data(), n, in_place.data());
      ASSERT_TRUE(AllSameBits(expected, in_place.values())) << n;
      ASSERT_TRUE(in_place.intact()) << n;
    }
  });
}

TEST_P(ElementwiseTest, ScaledSumsAndCaps) {
  ForLengths([&](int n, Values values, uint32_t seed) {
    auto expected = Vector(n, values, seed);
    const auto y = Vector(n, values, seed + 1000);
    const float factor = Vector(1, seed % 3 == 0 ? values : Values::kNormal, seed + 2000)[0];
    Guarded actual(expected, static_cast<int>(seed % 16));
    reference_.add_scaled(expected.data(), y.data(), factor, n);
    kernels_->add_scaled(actual.data(), y.data(), factor, n);
    ASSERT_TRUE(AllSameBits(expected, actual.values())) << n;
    reference_.scale(expected.data(), factor, n);
    kernels_->scale(actual.data(), factor, n);
    ASSERT_TRUE(AllSameBits(expected, actual.values())) << n;
    const float cap = seed % 2 == 0 ? 30.0F : 0.7F;
    reference_.soft_cap(expected.data(), cap, n);
    kernels_->soft_cap(actual.data(), cap, n);
    ASSERT_TRUE(AllSameBits(expected, actual.values())) << n;
    ASSERT_TRUE(actual.intact()) << n;
  });
}

TEST_P(ElementwiseTest, SwiGluAndAdd) {
  ForLengths([&](int n, Values values, uint32_t seed) {
    const auto gate = Vector(n, values, seed);
    const auto up = Vector(n, values, seed + 1000);
    std::vector<float> expected(gate.size());
    Guarded actual(gate, static_cast<int>(seed % 16));
    reference_.swiglu(gate.data(), up.data(), n, expected.data());
    kernels_->swiglu(actual.data(), up.data(), n, actual.data());  // y may be gate.
    ASSERT_TRUE(AllSameBits(expected, actual.values())) << n;
    Guarded into_up(up, static_cast<int>(seed % 5));
    kernels_->swiglu(gate.data(), into_up.data(), n, into_up.data());  // y may be up.
    ASSERT_TRUE(AllSameBits(expected, into_up.values())) << n;
    reference_.add(expected.data(), up.data(), n);
    kernels_->add(actual.data(), up.data(), n);
    ASSERT_TRUE(AllSameBits(expected, actual.values())) << n;
    ASSERT_TRUE(actual.intact() && into_up.intact()) << n;
  });
}

TEST_P(ElementwiseTest, Reductions) {
  ForLengths([&](int n, Values values, uint32_t seed) {
    Guarded x(Vector(n, values, seed), static_cast<int>(seed % 16));
    ASSERT_EQ(reference_.argmax(x.data(), n), kernels_->argmax(x.data(), n)) << n;
    ASSERT_TRUE(SameBits(reference_.log_sum_exp(x.data(), n), kernels_->log_sum_exp(x.data(), n)))
        << n;
    const float shift = seed % 4 == 0 ? Vector(1, values, seed + 1000)[0] : 3.5F;
    std::vector<float> expected(static_cast<size_t>(n));
    Guarded actual(n, static_cast<int>(seed % 9));
    const float divisor = seed % 3 == 0 ? 0.7F : 1.0F;
    const float least = seed % 5 == 0 ? -kInf : -87.0F;
    reference_.exp_weights(x.data(), n, shift, divisor, least, expected.data());
    kernels_->exp_weights(x.data(), n, shift, divisor, least, actual.data());
    ASSERT_TRUE(AllSameBits(expected, actual.values())) << n;
    ASSERT_TRUE(actual.intact() && x.intact()) << n;
  });
}

// Rows as the sampler has them: whole vocabularies, also with nearly all of it forbidden.
TEST_P(ElementwiseTest, ReductionsOverVocabularies) {
  uint32_t seed = 1;
  for (const int n : {32000, 49152, 49157, 128256, 262144}) {
    for (const Values values : kAllValues) {
      for (const int keep : {1, 2, 50}) {
        auto x = Vector(n, values, ++seed);
        if (keep > 1) {
          for (size_t i = 0; i < x.size(); ++i) {
            if (i % static_cast<size_t>(997 * keep) != 3) x[i] = -kInf;
          }
        }
        ASSERT_EQ(reference_.argmax(x.data(), n), kernels_->argmax(x.data(), n)) << n;
        ASSERT_TRUE(
            SameBits(reference_.log_sum_exp(x.data(), n), kernels_->log_sum_exp(x.data(), n)))
            << n;
      }
    }
  }
  const std::vector<float> nothing(1000, -kInf);
  EXPECT_EQ(reference_.argmax(nothing.data(), 1000), kernels_->argmax(nothing.data(), 1000));
  EXPECT_TRUE(SameBits(reference_.log_sum_exp(nothing.data(), 1000),
                       kernels_->log_sum_exp(nothing.data(), 1000)));
}

// Few different values, so that nearly every maximum is a tie, and NaN between them.
TEST_P(ElementwiseTest, ArgMaxOfManyTies) {
  Rng rng(5);
  const float values[] = {-1.0F, -0.0F, 0.0F, 2.0F, 2.0F, std::nanf(""), -kInf};
  for (int round = 0; round < 3000; ++round) {
    const int n = 1 + static_cast<int>(rng() % 200);
    const size_t kinds = 1 + rng() % std::size(values);
    Guarded x(n, round % 16);
    for (int i = 0; i < n; ++i) x.data()[i] = values[rng() % kinds];
    ASSERT_EQ(reference_.argmax(x.data(), n), kernels_->argmax(x.data(), n)) << n;
  }
}

TEST_P(ElementwiseTest, ArgMaxTiesAndNan) {
  const float nan = std::nanf("");
  for (const int n : {1, 5, 16, 33, 100}) {
    std::vector<float> x(static_cast<size_t>(n), nan);
    EXPECT_EQ(kernels_->argmax(x.data(), n), 0);
    x.back() = -kInf;
    EXPECT_EQ(kernels_->argmax(x.data(), n), n - 1);
    x.assign(x.size(), -1.0F);
    EXPECT_EQ(kernels_->argmax(x.data(), n), 0);
    x[static_cast<size_t>(n / 2)] = -0.0F;
    x.back() = 0.0F;
    EXPECT_EQ(kernels_->argmax(x.data(), n), n / 2);
  }
  // A NaN does not hide what its virtual lane met before it.
  for (int lane = 0; lane < 16; ++lane) {
    std::vector<float> x(100, -1.0F);
    x[static_cast<size_t>(lane)] = 5.0F;
    for (size_t i = static_cast<size_t>(lane) + 16; i < x.size(); i += 16) x[i] = nan;
    EXPECT_EQ(kernels_->argmax(x.data(), 100), lane);
  }
}

TEST_P(ElementwiseTest, ExpAtEveryKindOfArgument) {
  std::vector<float> x = {0.0F,       -0.0F,       kInf,   -kInf,     std::nanf(""), 88.72283F,
                          88.722839F, 88.7228394F, 89.0F,  -87.3365F, -87.33654F,    -87.3366F,
                          -104.0F,    1e30F,       -1e30F, 1e-45F};
  // Every 4001st number there is.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4001) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  const int n = static_cast<int>(x.size());
  std::vector<float> expected(x.size());
  std::vector<float> actual(x.size());
  for (const float least : {-kInf, -87.0F, 0.0F}) {
    reference_.exp_weights(x.data(), n, 0.0F, 1.0F, least, expected.data());
    kernels_->exp_weights(x.data(), n, 0.0F, 1.0F, least, actual.data());
    EXPECT_TRUE(AllSameBits(expected, actual)) << least;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!(x[i] >= least)) {
        ASSERT_TRUE(SameBits(actual[i], 0.0F)) << x[i];
      }
    }
  }
}

// log of one number each: log_sum_exp of copies of 0 is log(count).
TEST_P(ElementwiseTest, LogOfCounts) {
  std::vector<float> zeros(3000, 0.0F);
  for (int n = 1; n <= 3000; n += 7) {
    ASSERT_TRUE(
        SameBits(reference_.log_sum_exp(zeros.data(), n), kernels_->log_sum_exp(zeros.data(), n)));
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, ElementwiseTest, ::testing::Values("avx2", "avx512vnni"),
                         [](const auto& info) { return std::string(info.param); });

double UlpsApart(float actual, double exact) {
  const double ulp = std::ldexp(1.0, std::max(-149, std::ilogb(exact) - 23));
  return std::abs(static_cast<double>(actual) - exact) / ulp;
}

TEST(ReferenceMath, ExpIsWithinTwoUlps) {
  double worst = 0;
  for (float x = -87.33F; x < 88.72F; x += 0.000613F) {
    worst = std::max(worst, UlpsApart(reference::Exp(x), std::exp(static_cast<double>(x))));
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(reference::Exp(0.0F), 1.0F);
  EXPECT_EQ(reference::Exp(-0.0F), 1.0F);
  EXPECT_EQ(reference::Exp(88.8F), kInf);
  EXPECT_EQ(reference::Exp(kInf), kInf);
  EXPECT_EQ(reference::Exp(-87.4F), 0.0F);
  EXPECT_EQ(reference::Exp(-kInf), 0.0F);
  EXPECT_TRUE(std::isnan(reference::Exp(std::nanf(""))));
}

TEST(ReferenceMath, LogIsWithinTwoUlps) {
  double worst = 0;
  for (uint32_t bits = 1; bits < 0x7F800000U; bits += 4099) {
    const float x = std::bit_cast<float>(bits);
    if (x == 1.0F) continue;
    worst = std::max(worst, UlpsApart(reference::Log(x), std::log(static_cast<double>(x))));
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(reference::Log(1.0F), 0.0F);
  EXPECT_EQ(reference::Log(0.0F), -kInf);
  EXPECT_EQ(reference::Log(kInf), kInf);
  EXPECT_TRUE(std::isnan(reference::Log(-1.0F)));
  EXPECT_TRUE(std::isnan(reference::Log(std::nanf(""))));
}

TEST(ReferenceMath, RmsNormAndSwiGluFollowTheirFormulas) {
  const auto x = Vector(100, Values::kNormal, 11);
  const auto w = Vector(100, Values::kNormal, 12);
  std::vector<float> y(100);
  kReferenceKernels.rms_norm(x.data(), w.data(), 100, 1e-5F, y.data());
  double squares = 0;
  for (const float value : x) squares += double{value} * value;
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(y[i], x[i] / std::sqrt(squares / 100 + 1e-5) * w[i], 2e-6);
  }
  kReferenceKernels.swiglu(x.data(), w.data(), 100, y.data());
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(y[i], x[i] / (1 + std::exp(-double{x[i]})) * w[i], 1e-6);
  }
}

TEST(ReferenceMath, RopeTurnsNeighbours) {
  std::vector<float> x = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  const std::vector<float> cos_sin = {0.0F, 1.0F, 1.0F, 0.0F};
  kReferenceKernels.rope(x.data(), 1, 6, 4, cos_sin.data());
  EXPECT_EQ(x, (std::vector<float>{-2.0F, 1.0F, 3.0F, 4.0F, 5.0F, 6.0F}));
}

TEST(ReferenceMath, RopeOfHalvesTurnsElementsHalfAHeadApart) {
  std::vector<float> x = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  const std::vector<float> cos_sin = {0.0F, 1.0F, 1.0F, 0.0F};
  kReferenceKernels.rope_halves(x.data(), 1, 6, 4, cos_sin.data());
  EXPECT_EQ(x, (std::vector<float>{-3.0F, 2.0F, 1.0F, 4.0F, 5.0F, 6.0F}));
}

TEST(ReferenceMath, OtherFormulasAreFollowed) {
  const auto x = Vector(100, Values::kNormal, 21);
  const auto w = Vector(100, Values::kNormal, 22);
  const auto b = Vector(100, Values::kNormal, 23);
  std::vector<float> y(100);
  kReferenceKernels.layer_norm(x.data(), w.data(), b.data(), 100, 1e-5F, y.data());
  double mean = 0;
  double variance = 0;
  for (const float value : x) mean += double{value} / 100;
  for (const float value : x) variance += (value - mean) * (value - mean) / 100;
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(y[i], (x[i] - mean) / std::sqrt(variance + 1e-5) * w[i] + b[i], 3e-6);
  }
  const auto gelu = [](double z) {
    return 0.5 * z * (1 + std::tanh(std::sqrt(2 / 3.141592653589793) * (z + 0.044715 * z * z * z)));
  };
  kReferenceKernels.gelu(x.data(), 100, y.data());
  for (size_t i = 0; i < 100; ++i) EXPECT_NEAR(y[i], gelu(x[i]), 1e-6);
  kReferenceKernels.geglu(x.data(), w.data(), 100, y.data());
  for (size_t i = 0; i < 100; ++i) EXPECT_NEAR(y[i], gelu(x[i]) * w[i], 3e-6);
  std::vector<float> wide = x;
  for (float& value : wide) value *= 5;
  kReferenceKernels.swiglu_clamped(wide.data(), w.data(), 100, y.data());
  for (size_t i = 0; i < 100; ++i) {
    const double g = std::min(double{wide[i]}, 7.0);
    const double u = std::clamp(double{w[i]}, -7.0, 7.0);
    EXPECT_NEAR(y[i], (u + 1) * g / (1 + std::exp(-1.702 * g)), 1e-5);
  }
  y = wide;
  kReferenceKernels.soft_cap(y.data(), 3.0F, 100);
  for (size_t i = 0; i < 100; ++i) EXPECT_NEAR(y[i], 3 * std::tanh(wide[i] / 3.0), 1e-6);
  kReferenceKernels.swiglu_clamped(std::vector<float>{100.0F, -100.0F}.data(),
                                   std::vector<float>{100.0F, -100.0F}.data(), 2, y.data());
  EXPECT_NEAR(y[0], 8 * 7 / (1 + std::exp(-1.702 * 7)), 1e-5);
  EXPECT_NEAR(y[1], 0.0, 1e-6);  // (-7 + 1) * -100 * sigmoid(-170).
}

TEST(ReferenceMath, TheExactGeluIsNearDoublePrecision) {
  for (float x = -16.0F; x <= 16.0F; x += 0.000977F) {
    float y = 0;
    kReferenceKernels.exact_gelu(&x, 1, &y);
    const double expected = double{x} * std::erfc(-double{x} / std::sqrt(2.0)) / 2;
    ASSERT_NEAR(y, expected, 6e-8 + 3.2e-7 * std::max(expected, 0.0)) << x;
  }
  const std::vector<float> x = {0.0F, HUGE_VALF, -HUGE_VALF, std::nanf(""), 1e30F, -1e30F, 1e-40F};
  std::vector<float> y(x.size());
  kReferenceKernels.exact_gelu(x.data(), static_cast<int>(x.size()), y.data());
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_EQ(y[1], HUGE_VALF);
  EXPECT_EQ(y[2], 0.0F);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 1e30F);
  EXPECT_EQ(y[5], 0.0F);
  EXPECT_NEAR(y[6], 0.5e-40F, 1e-44F);
}

TEST(ReferenceMath, LogSumExpIsStable) {
  const std::vector<float> x = {1000.0F, 1000.0F, -1000.0F};
  EXPECT_NEAR(kReferenceKernels.log_sum_exp(x.data(), 3), 1000.0 + std::log(2.0), 1e-4);
}

}  // namespace
}  // namespace ropeway::kernels::testing
