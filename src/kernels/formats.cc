// The formats of numbers in memory: binary16, bfloat16 and KV blocks.
#include <bit>
#include <cstdlib>
#include <cstring>

#include "kernels/kernels.h"

namespace ropeway::kernels {

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {
    // Denormal: mantissa * 2^-24, exact in binary32.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13) | quiet);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  uint32_t half = 0;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  } else if (magnitude >= 0x477FF000U) {  // 65520 and more round to infinity.
    half = 0x7C00U;
  } else if (magnitude >= 0x38800000U) {  // Normal in binary16; a carry runs into the exponent.
    const uint32_t odd = (magnitude >> 13) & 1U;
    half = (magnitude - 0x38000000U + 0xFFFU + odd) >> 13;
  } else if (magnitude > 0x33000000U) {              // Denormal, above half of the smallest one.
    const uint32_t shift = 126 - (magnitude >> 23);  // 14 .. 24
    const uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    const uint32_t odd = (mantissa >> shift) & 1U;
    half = (mantissa + (1U << (shift - 1)) - 1 + odd) >> shift;
  }
  return static_cast<uint16_t>(sign | half);
}

float BFloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

const char* KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF16:
      return "f16";
    case KvType::kQ8_0:
      return "q8_0";
  }
  std::abort();
}

const KvType* KvTypeByName(const char* name) {
  static constexpr KvType kTypes[] = {KvType::kF16, KvType::kQ8_0};
  for (const KvType& type : kTypes) {
    if (std::strcmp(KvTypeName(type), name) == 0) return &type;
  }
  return nullptr;
}

size_t KvHeadBlockBytes(KvType type, int head_dim) {
  const size_t elements = size_t{2} * base::kBlockTokens * static_cast<size_t>(head_dim);
  switch (type) {
    case KvType::kF16:
      return elements * 2;
    case KvType::kQ8_0:
      return elements + size_t{2} * base::kBlockTokens * sizeof(float);
  }
  std::abort();
}

}  // namespace ropeway::kernels
