#include "model/quantize.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/number_types.h"

namespace ropeway::model {
namespace {

constexpr size_t kBlock = 32;
constexpr float kLargestHalf = 65504.0F;

// Rounds half away from zero, as C's roundf does.
float RoundHalfAway(float x) {
  const float magnitude = std::fabs(x);
  const float down = std::floor(magnitude);
  const float rounded = down + std::floor(2.0F * (magnitude - down));
  return std::copysign(rounded, x);
}

void PutScale(float scale, std::byte* to) {
  const uint16_t half = kernels::FloatToHalf(scale);
  std::memcpy(to, &half, sizeof half);
}

// 0 for scales whose inverse is infinite: in f16 they are 0, whatever the levels.
float InverseOf(float d) { return std::fabs(d) < 0x1p-100F ? 0.0F : 1.0F / d; }

void PutQ80Block(const float* x, float largest, std::byte* to) {
  const float d = std::fabs(largest) / 127.0F;
  const float inverse = InverseOf(d);
  PutScale(d, to);
  for (size_t i = 0; i < kBlock; ++i) {
    to[2 + i] = static_cast<std::byte>(static_cast<int8_t>(RoundHalfAway(x[i] * inverse)));
  }
}

int Q40Level(float x, float inverse) {
  const float product = x * inverse;  // Rounded by itself.
  return static_cast<int>(std::fmin(std::fmax(product + 8.5F, 0.0F), 15.0F));
}

void PutQ40Block(const float* x, float largest, std::byte* to) {
  const float d = largest / -8.0F;
  const float inverse = InverseOf(d);
  PutScale(d, to);
  for (size_t i = 0; i < kBlock / 2; ++i) {
    const int low = Q40Level(x[i], inverse);
    const int high = Q40Level(x[i + kBlock / 2], inverse);
    to[2 + i] = static_cast<std::byte>(low | (high << 4));
  }
}

// The first of the elements of largest magnitude, with its sign; NaN if one is not finite.
float LargestOf(const float* x) {
  float largest = x[0];
  for (size_t i = 0; i < kBlock; ++i) {
    if (!std::isfinite(x[i])) return NAN;
    if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
  }
  return largest;
}

}  // namespace

bool IsFloatType(uint32_t type) {
  return type == ggml_type::kF32 || type == ggml_type::kF16 || type == ggml_type::kBf16;
}

void WidenRow(uint32_t type, const std::byte* from, std::span<float> to) {
  if (type == ggml_type::kF32) {
    std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    to[i] = type == ggml_type::kF16 ? kernels::HalfToFloat(bits)
                                    : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
}

bool QuantizeRow(uint32_t type, std::span<const float> row, std::byte* to) {
  const bool eight = type == ggml_type::kQ80;
  const size_t block_bytes = eight ? 2 + kBlock : 2 + kBlock / 2;
  for (size_t i = 0; i < row.size(); i += kBlock, to += block_bytes) {
    const float* x = row.data() + i;
    const float largest = LargestOf(x);
    // Also false for NaN. A scale that f16 cannot hold would be infinite.
    if (!(std::fabs(largest) / (eight ? 127.0F : 8.0F) <= kLargestHalf)) return false;
    if (eight) {
      PutQ80Block(x, largest, to);
    } else {
      PutQ40Block(x, largest, to);
    }
  }
  return true;
}

uint32_t QuantizedType(std::string_view quantize, std::string_view name, uint32_t type,
                       std::span<const uint64_t> shape) {
  if (quantize.empty() || !IsFloatType(type)) return type;
  const bool matrix = shape.size() >= 2 && shape[0] % kBlock == 0 && name.ends_with(".weight");
  if (!matrix || name.ends_with("ffn_gate_inp.weight") || name.ends_with("norm.weight") ||
      name.ends_with("ffn_gate_inp_shexp.weight") || name == "position_embd.weight" ||
      name == "token_types.weight") {
    return type;
  }
  const bool ends = name == "token_embd.weight" || name == "output.weight";
  return quantize == "q4_0" && !ends ? ggml_type::kQ40 : ggml_type::kQ80;
}

}  // namespace ropeway::model
