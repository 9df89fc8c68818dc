// Binary16 and the repacking of weights.
#include <immintrin.h>

#include <cstring>

#include "kernels/test_util.h"

namespace ropeway::kernels::testing {
namespace {

__attribute__((target("f16c"))) float HardwareHalfToFloat(uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

__attribute__((target("f16c"))) uint16_t HardwareFloatToHalf(float value) {
  return static_cast<uint16_t>(
      _mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT)) & 0xFFFF);
}

TEST(Half, AllHalvesEqualHardware) {
  if (!__builtin_cpu_supports("f16c")) GTEST_SKIP() << "needs hardware: F16C";
  for (uint32_t i = 0; i <= 0xFFFF; ++i) {
    const uint16_t half = static_cast<uint16_t>(i);
    const float expected = HardwareHalfToFloat(half);
    ASSERT_EQ(std::bit_cast<uint32_t>(HalfToFloat(half)), std::bit_cast<uint32_t>(expected)) << i;
    ASSERT_EQ(FloatToHalf(expected), HardwareFloatToHalf(expected)) << i;
  }
}

TEST(Half, RoundingEqualsHardware) {
  if (!__builtin_cpu_supports("f16c")) GTEST_SKIP() << "needs hardware: F16C";
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 509) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(FloatToHalf(value), HardwareFloatToHalf(value)) << bits;
  }
  // Exactly half way between two neighbours, and one step to either side.
  for (uint32_t half = 0; half < 0x7C00; ++half) {
    const uint32_t low = std::bit_cast<uint32_t>(HalfToFloat(static_cast<uint16_t>(half)));
    for (const uint32_t at : {low + 0xFFFU, low + 0x1000U, low + 0x1001U}) {
      const float value = std::bit_cast<float>(at);
      ASSERT_EQ(FloatToHalf(value), HardwareFloatToHalf(value)) << at;
    }
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(FloatToHalf(1.0F), 0x3C00);
  EXPECT_EQ(FloatToHalf(65504.0F), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65519.9F), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7C00);
  EXPECT_EQ(FloatToHalf(-0x1p-24F), 0x8001);
  EXPECT_EQ(FloatToHalf(0x1p-25F), 0x0000);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24F);
  EXPECT_EQ(HalfToFloat(0xC000), -2.0F);
}

// The element `i` of a GGUF row, straight from the format's definition.
float GgufElement(WeightType type, const std::byte* row, int i) {
  const auto half_at = [](const std::byte* at) {
    uint16_t bits = 0;
    std::memcpy(&bits, at, 2);
    return HalfToFloat(bits);
  };
  if (type == WeightType::kF32) {
    float value = 0;
    std::memcpy(&value, row + 4 * i, 4);
    return value;
  }
  if (type == WeightType::kF16) return half_at(row + 2 * i);
  const int in = i % 32;
  if (type == WeightType::kQ8_0) {
    const std::byte* block = row + i / 32 * 34;
    return half_at(block) * static_cast<float>(static_cast<int8_t>(block[2 + in]));
  }
  const int header = type == WeightType::kQ4_1 ? 4 : 2;
  const std::byte* block = row + i / 32 * (header + 16);
  const int byte = static_cast<int>(block[header + in % 16]);
  const int nibble = in < 16 ? byte & 15 : byte >> 4;
  if (type == WeightType::kQ4_0) return half_at(block) * static_cast<float>(nibble - 8);
  return std::fma(half_at(block), static_cast<float>(nibble), half_at(block + 2));
}

TEST(Weights, UnpackedRowsAreTheFiles) {
  for (const WeightType type : kAllWeightTypes) {
    Rng rng(1);
    const int n = 37;
    const int k = 96;
    const auto rows = RandomRows(type, n, k, Values::kNormal, rng);
    AlignedBytes panels(MatrixBytes(type, n, k));
    const Matrix matrix = Pack(type, n, k, rows, &panels);
    EXPECT_EQ(matrix.num_panels(), 3);
    EXPECT_EQ(PanelBytes(type, k) % 64, 0U);
    for (int row = 0; row < n; ++row) {
      std::vector<float> out(static_cast<size_t>(k));
      UnpackRow(matrix, row, out.data());
      for (int i = 0; i < k; ++i) {
        ASSERT_EQ(
            out[static_cast<size_t>(i)],
            GgufElement(type, rows.data() + static_cast<size_t>(row) * WeightRowBytes(type, k), i))
            << WeightTypeName(type) << ' ' << row << ' ' << i;
      }
    }
  }
}

// Packing in pieces gives the same bytes, each of them definite, and no byte beyond.
TEST(Weights, PackingIsCompleteAndInPlace) {
  for (const WeightType type : kAllWeightTypes) {
    Rng rng(2);
    const int n = 50;
    const int k = 160;
    const auto rows = RandomRows(type, n, k, Values::kNormal, rng);
    const size_t size = MatrixBytes(type, n, k);
    std::vector<std::byte> a(size + 8, std::byte{0x11});
    std::vector<std::byte> b(size + 8, std::byte{0x11});
    PackPanels(type, n, k, rows.data(), 0, 4, a.data());
    std::fill(b.begin(), b.begin() + static_cast<int64_t>(size), std::byte{0x77});
    for (const int p : {2, 0, 3, 1}) PackPanels(type, n, k, rows.data(), p, p + 1, b.data());
    EXPECT_EQ(a, b) << WeightTypeName(type);
  }
}

TEST(Weights, SizesKeepTheFilesBitWidth) {
  EXPECT_EQ(WeightRowBytes(WeightType::kQ4_1, 576), 18U * 20);
  EXPECT_EQ(MatrixBytes(WeightType::kQ4_1, 3072, 576), 3072U * 18 * 20);
  EXPECT_EQ(MatrixBytes(WeightType::kQ8_0, 49152, 576), 49152U * 18 * 34);
  EXPECT_EQ(MatrixBytes(WeightType::kQ4_0, 576, 576), 576U * 18 * 18);
  EXPECT_EQ(MatrixBytes(WeightType::kF16, 16, 3), 128U);
}

}  // namespace
}  // namespace ropeway::kernels::testing
