// Binary16 and the repacking of weights.
#include <immintrin.h>

#include <cstring>
#include <map>
#include <tuple>

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

TEST(BFloat, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(BFloatToFloat(0x3F80), 1.0F);
  EXPECT_EQ(BFloatToFloat(0xC040), -3.0F);
  EXPECT_EQ(BFloatToFloat(0x0001), 0x1p-133F);
  EXPECT_EQ(BFloatToFloat(0x7F80), HUGE_VALF);
  EXPECT_TRUE(std::isnan(BFloatToFloat(0x7FC0)));
}

// One element of a GGUF row at a time, straight from the definitions of the formats, in the order
// of operations of gguf-py.
struct Stored {
  const uint8_t* at;  // The stored block.
  int e;              // The element in it.

  float Half(int offset) const {
    uint16_t bits = 0;
    std::memcpy(&bits, at + offset, 2);
    return HalfToFloat(bits);
  }
  // In blocks of 32, element e is a nibble of byte e % 16.
  int Nibble(int offset) const {
    const int byte = at[offset + e % 16];
    return e < 16 ? byte & 15 : byte >> 4;
  }
  int FifthBit(int offset) const { return (at[offset + e / 8] >> e % 8) & 1; }
  // In blocks of 256, four elements that are 32 apart share a byte: two bits each.
  int Pair(int offset) const {
    return (at[offset + e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2)) & 3;
  }
  int NibbleOf64(int offset) const {
    return (at[offset + e / 64 * 32 + e % 32] >> (e % 64 / 32 * 4)) & 15;
  }
  int BitOf256(int offset) const { return (at[offset + e % 32] >> (e / 32)) & 1; }
};

float Iq4Value(int index) {
  static constexpr int8_t kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
  return kValues[index];
}

// q less the minimum of Q4_K and Q5_K, whose 12 bytes of scales begin at byte 4.
float SixBitScaled(const Stored& s, int q) {
  const uint8_t* bytes = s.at + 4;
  const int j = s.e / 32;
  const int scale = j < 4 ? bytes[j] & 63 : (bytes[j + 4] & 15) | (bytes[j - 4] >> 6) << 4;
  const int min = j < 4 ? bytes[j + 4] & 63 : (bytes[j + 4] >> 4) | (bytes[j] >> 6) << 4;
  const float d = s.Half(0) * static_cast<float>(scale);
  const float m = s.Half(2) * static_cast<float>(min);
  return d * static_cast<float>(q) - m;
}

float Q3Element(const Stored& s) {
  const int part = s.e / 16;
  const int low = part < 8 ? s.at[96 + part] & 15 : s.at[96 + part - 8] >> 4;
  const int high = (s.at[104 + part % 4] >> (part / 4 * 2)) & 3;
  const float d = s.Half(108) * static_cast<float>(low + 16 * high - 32);
  return d * static_cast<float>(s.Pair(32) - (s.BitOf256(0) == 1 ? 0 : 4));
}

float Q6Element(const Stored& s) {
  const int in_half = s.e % 128;
  const int low = (s.at[s.e / 128 * 64 + in_half % 64] >> (in_half / 64 * 4)) & 15;
  const float d = s.Half(208) * static_cast<float>(static_cast<int8_t>(s.at[192 + s.e / 16]));
  return d * static_cast<float>((low | s.Pair(128) << 4) - 32);
}

float Iq4XsElement(const Stored& s) {
  const int block = s.e / 32;
  const int low = (s.at[4 + block / 2] >> (block % 2 * 4)) & 15;
  const int high = ((s.at[2] | s.at[3] << 8) >> (2 * block)) & 3;
  const float d = s.Half(0) * static_cast<float>((low | high << 4) - 32);
  const Stored in_block = {s.at, s.e % 32};
  return d * Iq4Value(in_block.Nibble(8 + 16 * block));
}

float Mxfp4Element(const Stored& s) {
  static constexpr float kValues[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const int index = s.Nibble(1);
  const float value = index < 8 ? kValues[index] : 0.0F - kValues[index - 8];
  return static_cast<float>(std::ldexp(value, s.at[0] - 127));
}

float GgufElement(WeightType type, const std::byte* row, int i) {
  const int elements = WeightBlockElements(type);
  const size_t block = static_cast<size_t>(i / elements) * WeightRowBytes(type, elements);
  const Stored s = {reinterpret_cast<const uint8_t*>(row) + block, i % elements};
  switch (type) {
    case WeightType::kF32: {
      float value = 0.0F;
      std::memcpy(&value, s.at, 4);
      return value;
    }
    case WeightType::kF16:
      return s.Half(0);
    case WeightType::kBF16:
      return std::bit_cast<float>(uint32_t{s.at[0]} << 16 | uint32_t{s.at[1]} << 24);
    case WeightType::kQ4_0:
      return s.Half(0) * static_cast<float>(s.Nibble(2) - 8);
    case WeightType::kQ4_1:
      return s.Half(0) * static_cast<float>(s.Nibble(4)) + s.Half(2);
    case WeightType::kQ5_0:
      return s.Half(0) * static_cast<float>((s.Nibble(6) | s.FifthBit(2) << 4) - 16);
    case WeightType::kQ5_1:
      return s.Half(0) * static_cast<float>(s.Nibble(8) | s.FifthBit(4) << 4) + s.Half(2);
    case WeightType::kQ8_0:
      return s.Half(0) * static_cast<float>(static_cast<int8_t>(s.at[2 + s.e]));
    case WeightType::kQ2_K: {
      const int scales = s.at[s.e / 16];
      const float d = s.Half(80) * static_cast<float>(scales & 15);
      const float m = s.Half(82) * static_cast<float>(scales >> 4);
      return d * static_cast<float>(s.Pair(16)) - m;
    }
    case WeightType::kQ3_K:
      return Q3Element(s);
    case WeightType::kQ4_K:
      return SixBitScaled(s, s.NibbleOf64(16));
    case WeightType::kQ5_K:
      return SixBitScaled(s, s.NibbleOf64(48) | s.BitOf256(16) << 4);
    case WeightType::kQ6_K:
      return Q6Element(s);
    case WeightType::kIQ4_NL:
      return s.Half(0) * Iq4Value(s.Nibble(2));
    case WeightType::kIQ4_XS:
      return Iq4XsElement(s);
    case WeightType::kMXFP4:
      return Mxfp4Element(s);
  }
  return NAN;
}

TEST(Weights, UnpackedRowsAreTheFiles) {
  for (const WeightType type : kWeightTypes) {
    Rng rng(1);
    const int n = 37;
    const int k = WeightBlockElements(type) == 256 ? 768 : 96;
    const auto rows = RandomRows(type, n, k, Values::kNormal, rng);
    AlignedBytes panels(MatrixBytes(type, n, k));
    const Matrix matrix = Pack(type, n, k, rows, &panels);
    EXPECT_EQ(matrix.num_panels(), 3);
    EXPECT_EQ(PanelBytes(type, k) % 64, 0U);
    for (int row = 0; row < n; ++row) {
      std::vector<float> out(static_cast<size_t>(k));
      UnpackRow(matrix, row, out.data());
      const std::byte* stored = rows.data() + static_cast<size_t>(row) * WeightRowBytes(type, k);
      for (int i = 0; i < k; ++i) {
        ASSERT_TRUE(SameBits(out[static_cast<size_t>(i)], GgufElement(type, stored, i)))
            << WeightTypeName(type) << ' ' << row << ' ' << i;
      }
    }
  }
}

// The whole range of the exponent, overflow and NaN's own number too.
TEST(Weights, EveryExponentOfMxfp4) {
  std::vector<std::byte> rows(17 * 256);
  for (size_t e = 0; e < 256; ++e) {
    rows[17 * e] = static_cast<std::byte>(e);
    for (size_t i = 0; i < 16; ++i) rows[17 * e + 1 + i] = static_cast<std::byte>(16 * i + i % 7);
  }
  AlignedBytes panels(MatrixBytes(WeightType::kMXFP4, 256, 32));
  const Matrix matrix = Pack(WeightType::kMXFP4, 256, 32, rows, &panels);
  for (int row = 0; row < 256; ++row) {
    std::vector<float> out(32);
    UnpackRow(matrix, row, out.data());
    for (int i = 0; i < 32; ++i) {
      const std::byte* stored = &rows[17 * static_cast<size_t>(row)];
      const float expected = GgufElement(WeightType::kMXFP4, stored, i);
      ASSERT_TRUE(SameBits(out[static_cast<size_t>(i)], expected)) << row << ' ' << i;
    }
  }
}

// Packing in pieces gives the same bytes, each of them definite, and no byte beyond.
TEST(Weights, PackingIsCompleteAndInPlace) {
  for (const WeightType type : kWeightTypes) {
    Rng rng(2);
    const int n = 50;
    const int k = WholeBlocks(type, 160);
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

TEST(Weights, TypesHaveTheNamesAndSizesOfTheFormat) {
  const std::vector<std::tuple<std::string, int, size_t>> expected = {
      {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},       {"Q4_0", 32, 18},
      {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},     {"Q8_0", 32, 34},
      {"Q2_K", 256, 84},  {"Q3_K", 256, 110}, {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
      {"Q6_K", 256, 210}, {"IQ4_NL", 32, 18}, {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17}};
  ASSERT_EQ(std::size(kWeightTypes), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const WeightType type = kWeightTypes[i];
    EXPECT_EQ(static_cast<size_t>(type), i);
    const int elements = WeightBlockElements(type);
    EXPECT_EQ(std::tuple(WeightTypeName(type), elements, WeightRowBytes(type, elements)),
              expected[i]);
  }
}

TEST(Weights, SizesKeepTheFilesBitWidth) {
  EXPECT_EQ(WeightRowBytes(WeightType::kQ4_1, 576), 18U * 20);
  EXPECT_EQ(MatrixBytes(WeightType::kQ4_1, 3072, 576), 3072U * 18 * 20);
  EXPECT_EQ(MatrixBytes(WeightType::kQ8_0, 49152, 576), 49152U * 18 * 34);
  EXPECT_EQ(MatrixBytes(WeightType::kQ4_0, 576, 576), 576U * 18 * 18);
  EXPECT_EQ(MatrixBytes(WeightType::kF16, 16, 3), 128U);
  // docs/numerics.md.
  const std::map<WeightType, double> more = {{WeightType::kQ6_K, 1.010},
                                             {WeightType::kQ5_K, 1.023},
                                             {WeightType::kQ4_K, 1.028},
                                             {WeightType::kIQ4_XS, 1.029},
                                             {WeightType::kQ3_K, 1.055}};
  for (const WeightType type : kWeightTypes) {
    const auto file = static_cast<double>(WeightRowBytes(type, 4096) * 4096);
    const double expected = more.contains(type) ? more.at(type) : 1.0;
    EXPECT_NEAR(static_cast<double>(MatrixBytes(type, 4096, 4096)) / file, expected, 0.0006)
        << WeightTypeName(type);
    // gpt-oss's experts, whose rows end within a unit, and a matrix with one output too many.
    const int k = WholeBlocks(type, 2880);
    EXPECT_LT(static_cast<double>(MatrixBytes(type, 2881, k)),
              1.1 * static_cast<double>(WeightRowBytes(type, k) * 2881))
        << WeightTypeName(type);
  }
}

TEST(Weights, BadScalesAreFound) {
  for (const WeightType type : kWeightTypes) {
    Rng rng(4);
    const int elements = WeightBlockElements(type);
    auto rows = RandomRows(type, 5, elements, Values::kNormal, rng);
    EXPECT_EQ(FindBadScale(type, rows.data(), 5), -1) << WeightTypeName(type);
    const StoredScales stored = StoredScalesOf(type);
    std::byte* block = &rows[3 * WeightRowBytes(type, elements)];
    for (const int offset : {stored.scale, stored.min}) {
      if (offset < 0) continue;
      for (const uint16_t bad : {0x7C00, 0xFC00, 0x7E00, 0xFFFF}) {
        uint16_t good = 0;
        std::memcpy(&good, block + offset, 2);
        std::memcpy(block + offset, &bad, 2);
        EXPECT_EQ(FindBadScale(type, rows.data(), 5), 3) << WeightTypeName(type);
        EXPECT_EQ(FindBadScale(type, rows.data(), 3), -1) << WeightTypeName(type);
        std::memcpy(block + offset, &good, 2);
      }
    }
    if (type == WeightType::kMXFP4) {
      *block = std::byte{255};
      EXPECT_EQ(FindBadScale(type, rows.data(), 5), 3);
    }
  }
}

// At all places of a few chunks of the search.
TEST(Weights, NumbersThatAreNotFiniteAreFound) {
  constexpr int64_t kCount = 150;
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
    const size_t bytes = WeightRowBytes(type, 1);
    std::vector<std::byte> good(kCount * bytes, std::byte{0x3B});
    EXPECT_EQ(FindBadScale(type, good.data(), kCount), -1) << WeightTypeName(type);
    for (int64_t at = 0; at < kCount; ++at) {
      // The highest two bytes of NaN, and of infinities of either sign.
      const uint16_t infinity = type == WeightType::kF16 ? 0x7C00 : 0x7F80;
      for (const int bits : {infinity | 0x40, int{infinity}, infinity | 0x8000}) {
        const auto high = static_cast<uint16_t>(bits);
        std::vector<std::byte> bad = good;
        std::memcpy(&bad[static_cast<size_t>(at + 1) * bytes - 2], &high, 2);
        ASSERT_EQ(FindBadScale(type, bad.data(), kCount), at) << WeightTypeName(type);
        ASSERT_EQ(FindBadScale(type, bad.data(), at), -1) << WeightTypeName(type);
      }
    }
  }
}

}  // namespace
}  // namespace ropeway::kernels::testing
