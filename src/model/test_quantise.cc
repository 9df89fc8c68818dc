// For tests: numbers quantised into each of GGUF's types, plainly: scales from the extremes, then
// the nearest levels. The same bytes on every machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "model/test_gguf_writer.h"

namespace ropeway::model {
namespace {

template <typename T>
void Append(const T& value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

// The element of largest magnitude, with its sign.
float Extreme(const float* x, int n) {
  float extreme = 0.0F;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

int Level(float value, int lowest, int highest) {
  return std::clamp(static_cast<int>(std::nearbyint(value)), lowest, highest);
}

// The level of x at a scale; 0 where that is 0.
int LevelOf(float x, float scale, int lowest, int highest) {
  return scale == 0.0F ? 0 : Level(x / scale, lowest, highest);
}

template <size_t kValues>
int NearestIndex(float x, float scale, const std::array<int, kValues>& values) {
  size_t nearest = 0;
  for (size_t i = 0; scale != 0.0F && i < kValues; ++i) {
    const auto distance = [&](size_t index) {
      return std::fabs(static_cast<float>(values.at(index)) - x / scale);
    };
    if (distance(i) < distance(nearest)) nearest = i;
  }
  return static_cast<int>(nearest);
}

constexpr std::array<int, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::array<int, 16> kMxfp4 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Blocks of 32. The inverse of the scale as stored (rounded to f16) is used, so that the levels are
// the nearest ones.

// Appends the low four bits of 32 levels, two a byte.
void AppendNibbles(const int* levels, std::string* out) {
  for (int i = 0; i < 16; ++i) {
    Append(static_cast<uint8_t>((levels[i] & 15) | (levels[i + 16] & 15) << 4), out);
  }
}

void AppendFifthBits(const int* levels, std::string* out) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(levels[i] >> 4) << i;
  Append(bits, out);
}

void AppendQ80(const float* x, std::string* out) {
  const uint16_t scale = kernels::FloatToHalf(std::fabs(Extreme(x, 32)) / 127.0F);
  Append(scale, out);
  for (int i = 0; i < 32; ++i) {
    Append(static_cast<int8_t>(LevelOf(x[i], kernels::HalfToFloat(scale), -127, 127)), out);
  }
}

// Q4_0 (half = 8) and Q5_0 (16).
void AppendSymmetric(const float* x, int half, std::string* out) {
  const uint16_t scale = kernels::FloatToHalf(Extreme(x, 32) / static_cast<float>(-half));
  int levels[32];
  for (int i = 0; i < 32; ++i) {
    levels[i] = LevelOf(x[i], kernels::HalfToFloat(scale), -half, half - 1) + half;
  }
  Append(scale, out);
  if (half > 8) AppendFifthBits(levels, out);
  AppendNibbles(levels, out);
}

// Q4_1 (highest = 15) and Q5_1 (31).
void AppendWithMin(const float* x, int highest, std::string* out) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const uint16_t scale = kernels::FloatToHalf((*most - *least) / static_cast<float>(highest));
  const uint16_t minimum = kernels::FloatToHalf(*least);
  const float m = kernels::HalfToFloat(minimum);
  int levels[32];
  for (int i = 0; i < 32; ++i) {
    levels[i] = LevelOf(x[i] - m, kernels::HalfToFloat(scale), 0, highest);
  }
  Append(scale, out);
  Append(minimum, out);
  if (highest > 15) AppendFifthBits(levels, out);
  AppendNibbles(levels, out);
}

void AppendIq4Nl(const float* x, std::string* out) {
  const uint16_t scale = kernels::FloatToHalf(Extreme(x, 32) / -127.0F);
  int levels[32];
  for (int i = 0; i < 32; ++i) levels[i] = NearestIndex(x[i], kernels::HalfToFloat(scale), kIq4);
  Append(scale, out);
  AppendNibbles(levels, out);
}

void AppendMxfp4(const float* x, std::string* out) {
  const float extreme = std::fabs(Extreme(x, 32));
  // The largest value, 12, times 2^(e - 128) lies above the extreme or just below it.
  const int e = extreme == 0.0F ? 0 : std::clamp(std::ilogb(extreme) - 2 + 127, 0, 254);
  int levels[32];
  for (int i = 0; i < 32; ++i) levels[i] = NearestIndex(x[i], std::ldexp(1.0F, e - 128), kMxfp4);
  Append(static_cast<uint8_t>(e), out);
  AppendNibbles(levels, out);
}

// Blocks of 256, in parts of 16 or 32 with an integer scale (and minimum) of their own.
struct SuperBlock {
  uint16_t d = 0;
  uint16_t m = 0;
  std::array<int, 16> scale = {};
  std::array<int, 16> min = {};
  std::array<int, 256> level = {};
};

// Weights d * scale * level - m * min, levels 0 .. highest.
SuperBlock WithMinima(const float* x, int part, int highest, int highest_code) {
  SuperBlock block;
  std::array<float, 16> scales = {};
  std::array<float, 16> minima = {};
  const int parts = 256 / part;
  for (int p = 0; p < parts; ++p) {
    const auto [least, most] = std::minmax_element(x + p * part, x + (p + 1) * part);
    const float low = std::min(*least, 0.0F);
    minima.at(static_cast<size_t>(p)) = -low;
    scales.at(static_cast<size_t>(p)) = (std::max(*most, 0.0F) - low) / static_cast<float>(highest);
  }
  const float codes = static_cast<float>(highest_code);
  block.d = kernels::FloatToHalf(*std::ranges::max_element(scales) / codes);
  block.m = kernels::FloatToHalf(*std::ranges::max_element(minima) / codes);
  for (size_t p = 0; p < static_cast<size_t>(parts); ++p) {
    block.scale.at(p) = LevelOf(scales.at(p), kernels::HalfToFloat(block.d), 0, highest_code);
    block.min.at(p) = LevelOf(minima.at(p), kernels::HalfToFloat(block.m), 0, highest_code);
  }
  for (size_t i = 0; i < 256; ++i) {
    const size_t p = i / static_cast<size_t>(part);
    const float scale = kernels::HalfToFloat(block.d) * static_cast<float>(block.scale.at(p));
    const float min = kernels::HalfToFloat(block.m) * static_cast<float>(block.min.at(p));
    block.level.at(i) = LevelOf(x[i] + min, scale, 0, highest);
  }
  return block;
}

// Weights d * scale * level, scales from -half_codes on. `lowest`: the level of the extreme.
SuperBlock WithSigns(const float* x, int part, int lowest, int half_codes) {
  SuperBlock block;
  std::array<float, 16> scales = {};
  const int parts = 256 / part;
  for (int p = 0; p < parts; ++p) {
    scales.at(static_cast<size_t>(p)) = Extreme(x + p * part, part) / static_cast<float>(lowest);
  }
  block.d = kernels::FloatToHalf(Extreme(scales.data(), 16) / static_cast<float>(-half_codes));
  const float d = kernels::HalfToFloat(block.d);
  for (size_t p = 0; p < static_cast<size_t>(parts); ++p) {
    block.scale.at(p) = LevelOf(scales.at(p), d, -half_codes, half_codes - 1);
  }
  for (size_t i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(block.scale.at(i / static_cast<size_t>(part)));
    block.level.at(i) = lowest == kIq4.front() ? NearestIndex(x[i], scale, kIq4)
                                               : LevelOf(x[i], scale, lowest, -lowest - 1) - lowest;
  }
  return block;
}

// Sets bits of a byte that is 0 there.
template <size_t kBytes>
void SetBits(std::array<uint8_t, kBytes>* bytes, size_t at, int value, size_t shift) {
  bytes->at(at) = static_cast<uint8_t>(bytes->at(at) | (value << shift));
}

void AppendQ2K(const float* x, std::string* out) {
  const SuperBlock block = WithMinima(x, 16, 3, 15);
  std::array<uint8_t, 80> bytes = {};
  for (size_t p = 0; p < 16; ++p) SetBits(&bytes, p, block.scale.at(p) | block.min.at(p) << 4, 0);
  for (size_t i = 0; i < 256; ++i) {
    SetBits(&bytes, 16 + i / 128 * 32 + i % 32, block.level.at(i), i % 128 / 32 * 2);
  }
  Append(bytes, out);
  Append(block.d, out);
  Append(block.m, out);
}

void AppendQ3K(const float* x, std::string* out) {
  const SuperBlock block = WithSigns(x, 16, -4, 32);
  std::array<uint8_t, 108> bytes = {};
  for (size_t i = 0; i < 256; ++i) {
    SetBits(&bytes, i % 32, block.level.at(i) >> 2, i / 32);
    SetBits(&bytes, 32 + i / 128 * 32 + i % 32, block.level.at(i) & 3, i % 128 / 32 * 2);
  }
  for (size_t p = 0; p < 16; ++p) {
    const int code = block.scale.at(p) + 32;
    SetBits(&bytes, 96 + p % 8, code & 15, p / 8 * 4);
    SetBits(&bytes, 104 + p % 4, code >> 4, p / 4 * 2);
  }
  Append(bytes, out);
  Append(block.d, out);
}

// Q4_K (bits = 4) and Q5_K.
void AppendQ45K(const float* x, int bits, std::string* out) {
  const SuperBlock block = WithMinima(x, 32, (1 << bits) - 1, 63);
  std::array<uint8_t, 12> scales = {};
  for (size_t p = 0; p < 4; ++p) {
    SetBits(&scales, p, block.scale.at(p) | block.scale.at(p + 4) >> 4 << 6, 0);
    SetBits(&scales, p + 4, block.min.at(p) | block.min.at(p + 4) >> 4 << 6, 0);
    SetBits(&scales, p + 8, (block.scale.at(p + 4) & 15) | (block.min.at(p + 4) & 15) << 4, 0);
  }
  std::array<uint8_t, 32> high = {};
  std::array<uint8_t, 128> low = {};
  for (size_t i = 0; i < 256; ++i) {
    SetBits(&high, i % 32, block.level.at(i) >> 4, i / 32);
    SetBits(&low, i / 64 * 32 + i % 32, block.level.at(i) & 15, i % 64 / 32 * 4);
  }
  Append(block.d, out);
  Append(block.m, out);
  Append(scales, out);
  if (bits == 5) Append(high, out);
  Append(low, out);
}

void AppendQ6K(const float* x, std::string* out) {
  const SuperBlock block = WithSigns(x, 16, -32, 128);
  std::array<uint8_t, 208> bytes = {};
  for (size_t i = 0; i < 256; ++i) {
    const size_t in_half = i % 128;
    SetBits(&bytes, i / 128 * 64 + in_half % 64, block.level.at(i) & 15, in_half / 64 * 4);
    SetBits(&bytes, 128 + i / 128 * 32 + i % 32, block.level.at(i) >> 4, in_half / 32 * 2);
  }
  for (size_t p = 0; p < 16; ++p) SetBits(&bytes, 192 + p, block.scale.at(p) & 255, 0);
  Append(bytes, out);
  Append(block.d, out);
}

void AppendIq4Xs(const float* x, std::string* out) {
  const SuperBlock block = WithSigns(x, 32, kIq4.front(), 32);
  std::array<uint8_t, 6> scales = {};
  for (size_t p = 0; p < 8; ++p) {
    const int code = block.scale.at(p) + 32;
    SetBits(&scales, p / 4, code >> 4, p % 4 * 2);
    SetBits(&scales, 2 + p / 2, code & 15, p % 2 * 4);
  }
  Append(block.d, out);
  Append(scales, out);
  for (size_t p = 0; p < 8; ++p) AppendNibbles(&block.level.at(32 * p), out);
}

void AppendBlock(kernels::WeightType type, const float* x, std::string* out) {
  switch (type) {
    case kernels::WeightType::kF32:
      return Append(*x, out);
    case kernels::WeightType::kF16:
      return Append(kernels::FloatToHalf(*x), out);
    case kernels::WeightType::kBF16: {
      // Cut off: the tests need no nearest number.
      uint32_t bits = 0;
      std::memcpy(&bits, x, sizeof bits);
      return Append(static_cast<uint16_t>(bits >> 16), out);
    }
    case kernels::WeightType::kQ4_0:
      return AppendSymmetric(x, 8, out);
    case kernels::WeightType::kQ4_1:
      return AppendWithMin(x, 15, out);
    case kernels::WeightType::kQ5_0:
      return AppendSymmetric(x, 16, out);
    case kernels::WeightType::kQ5_1:
      return AppendWithMin(x, 31, out);
    case kernels::WeightType::kQ8_0:
      return AppendQ80(x, out);
    case kernels::WeightType::kQ2_K:
      return AppendQ2K(x, out);
    case kernels::WeightType::kQ3_K:
      return AppendQ3K(x, out);
    case kernels::WeightType::kQ4_K:
      return AppendQ45K(x, 4, out);
    case kernels::WeightType::kQ5_K:
      return AppendQ45K(x, 5, out);
    case kernels::WeightType::kQ6_K:
      return AppendQ6K(x, out);
    case kernels::WeightType::kIQ4_NL:
      return AppendIq4Nl(x, out);
    case kernels::WeightType::kIQ4_XS:
      return AppendIq4Xs(x, out);
    case kernels::WeightType::kMXFP4:
      return AppendMxfp4(x, out);
  }
}

}  // namespace

std::string QuantiseForGguf(kernels::WeightType type, std::span<const float> values) {
  const auto step = static_cast<size_t>(kernels::WeightBlockElements(type));
  if (values.size() % step != 0) throw std::runtime_error("QuantiseForGguf: no whole blocks");
  std::string out;
  for (size_t i = 0; i < values.size(); i += step) AppendBlock(type, values.data() + i, &out);
  return out;
}

}  // namespace ropeway::model
