// The formats of numbers in memory: binary16, weights in panels (layout.h) and KV blocks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/layout.h"
#include "kernels/reference.h"

namespace ropeway::kernels {
namespace {

uint16_t LoadHalfBits(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

void StoreHalfBits(std::byte* at, uint16_t bits) { std::memcpy(at, &bits, sizeof bits); }

// Packs one column of a panel of F32 or F16 weights. src == nullptr: a column of padding, all zero.
void PackFloatColumn(size_t width, size_t k, const std::byte* src, size_t c, std::byte* panel) {
  for (size_t i = 0; i < k; ++i) {
    std::byte* to = panel + (i * kPanelCols + c) * width;
    if (src != nullptr) {
      std::memcpy(to, src + i * width, width);
    } else {
      std::memset(to, 0, width);
    }
  }
}

// The same for quantised weights.
void PackQuantColumn(const WeightFormat& format, size_t k, const std::byte* src, size_t c,
                     std::byte* panel) {
  for (size_t b = 0; b < k / kQuantBlock; ++b) {
    std::byte* d = panel + format.ScaleOffset(b) + 2 * c;
    std::byte* lines = panel + format.LinesOffset(b) + 4 * c;
    const std::byte* block = src == nullptr ? nullptr : src + b * format.block_bytes;
    StoreHalfBits(d, block == nullptr ? 0 : LoadHalfBits(block));
    if (format.has_min) StoreHalfBits(d + 32, block == nullptr ? 0 : LoadHalfBits(block + 2));
    const size_t header = format.has_min ? 4 : 2;
    for (size_t i = 0; i < format.lines * 4; ++i) {
      // Adding 128 modulo 256 turns a signed byte into the unsigned one plus 128.
      const int byte = block == nullptr ? 0 : static_cast<int>(block[header + i]);
      lines[i / 4 * 64 + i % 4] = static_cast<std::byte>((byte + format.byte_bias) & 0xFF);
    }
  }
}

}  // namespace

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

const WeightFormat& FormatOf(WeightType type) {
  static constexpr WeightFormat kF32 = {.name = "F32", .block_elements = 1, .block_bytes = 4};
  static constexpr WeightFormat kF16 = {.name = "F16", .block_elements = 1, .block_bytes = 2};
  static constexpr WeightFormat kQ40 = {.name = "Q4_0",
                                        .block_elements = kQuantBlock,
                                        .block_bytes = 2 + 16,
                                        .unit_blocks = 2,
                                        .unit_bytes = kQ40PairBytes,
                                        .lines = 4,
                                        .offset = 8};
  static constexpr WeightFormat kQ41 = {.name = "Q4_1",
                                        .block_elements = kQuantBlock,
                                        .block_bytes = 4 + 16,
                                        .unit_blocks = 1,
                                        .unit_bytes = kQ41BlockBytes,
                                        .lines = 4,
                                        .has_min = true};
  static constexpr WeightFormat kQ80 = {.name = "Q8_0",
                                        .block_elements = kQuantBlock,
                                        .block_bytes = 2 + 32,
                                        .unit_blocks = 2,
                                        .unit_bytes = kQ80PairBytes,
                                        .lines = 8,
                                        .offset = 128,
                                        .byte_bias = 128};
  switch (type) {
    case WeightType::kF32:
      return kF32;
    case WeightType::kF16:
      return kF16;
    case WeightType::kQ4_0:
      return kQ40;
    case WeightType::kQ4_1:
      return kQ41;
    case WeightType::kQ8_0:
      return kQ80;
  }
  std::abort();  // No value of the enum.
}

const char* WeightTypeName(WeightType type) { return FormatOf(type).name; }

int WeightBlockElements(WeightType type) { return static_cast<int>(FormatOf(type).block_elements); }

size_t WeightRowBytes(WeightType type, int k) {
  const WeightFormat& format = FormatOf(type);
  return static_cast<size_t>(k) / format.block_elements * format.block_bytes;
}

size_t PanelBytes(WeightType type, int k) {
  const WeightFormat& format = FormatOf(type);
  const size_t elements = static_cast<size_t>(k);
  if (!format.quantised()) return (elements * kPanelCols * format.block_bytes + 63) / 64 * 64;
  const size_t blocks = elements / kQuantBlock;
  return (blocks + format.unit_blocks - 1) / format.unit_blocks * format.unit_bytes;
}

Matrix Matrix::PanelRange(int begin, int end) const {
  Matrix part = *this;
  part.n = std::min(end * kPanelCols, n) - begin * kPanelCols;
  part.panels = panels + static_cast<size_t>(begin) * PanelBytes(type, k);
  return part;
}

size_t MatrixBytes(WeightType type, int n, int k) {
  return static_cast<size_t>((n + kPanelCols - 1) / kPanelCols) * PanelBytes(type, k);
}

void PackPanels(WeightType type, int n, int k, const std::byte* rows, int panel_begin,
                int panel_end, std::byte* panels) {
  const WeightFormat& format = FormatOf(type);
  const size_t elements = static_cast<size_t>(k);
  const size_t row_bytes = WeightRowBytes(type, k);
  const size_t panel_bytes = PanelBytes(type, k);
  for (int p = panel_begin; p < panel_end; ++p) {
    std::byte* panel = panels + static_cast<size_t>(p) * panel_bytes;
    // What no column writes (padding, an odd last block's twin) gets a definite value.
    const size_t tail = std::min<size_t>(panel_bytes, kQ80PairBytes);
    std::memset(panel + panel_bytes - tail, 0, tail);
    for (int c = 0; c < kPanelCols; ++c) {
      const int row = p * kPanelCols + c;
      const std::byte* src = row < n ? rows + static_cast<size_t>(row) * row_bytes : nullptr;
      if (format.quantised()) {
        PackQuantColumn(format, elements, src, static_cast<size_t>(c), panel);
      } else {
        PackFloatColumn(format.block_bytes, elements, src, static_cast<size_t>(c), panel);
      }
    }
  }
}

void UnpackRow(const Matrix& matrix, int row, float* out) {
  const WeightFormat& format = FormatOf(matrix.type);
  const size_t c = static_cast<size_t>(row % kPanelCols);
  const size_t k = static_cast<size_t>(matrix.k);
  const std::byte* panel =
      matrix.panels + static_cast<size_t>(row / kPanelCols) * PanelBytes(matrix.type, matrix.k);
  if (matrix.type == WeightType::kF32) {
    for (size_t i = 0; i < k; ++i) std::memcpy(out + i, panel + (i * kPanelCols + c) * 4, 4);
    return;
  }
  if (matrix.type == WeightType::kF16) {
    for (size_t i = 0; i < k; ++i) {
      out[i] = HalfToFloat(LoadHalfBits(panel + (i * kPanelCols + c) * 2));
    }
    return;
  }
  for (size_t b = 0; b < k / kQuantBlock; ++b) {
    const std::byte* scale = panel + format.ScaleOffset(b) + 2 * c;
    const std::byte* lines = panel + format.LinesOffset(b) + 4 * c;
    const float d = HalfToFloat(LoadHalfBits(scale));
    const float m = format.has_min ? HalfToFloat(LoadHalfBits(scale + 32)) : 0.0F;
    const auto weight = [&](int q) {
      return format.has_min ? std::fma(d, static_cast<float>(q), m)
                            : d * static_cast<float>(q - format.offset);
    };
    float* block = out + b * kQuantBlock;
    for (size_t i = 0; i < format.lines * 4; ++i) {
      const int byte = static_cast<int>(lines[i / 4 * 64 + i % 4]);
      if (format.lines == 8) {
        block[i] = weight(byte);
      } else {
        block[i] = weight(byte & 15);
        block[i + 16] = weight(byte >> 4);
      }
    }
  }
}

size_t PackedRowsBytes(WeightType type, int rows, int k) {
  const size_t groups = static_cast<size_t>((rows + kRowGroup - 1) / kRowGroup);
  const size_t elements = static_cast<size_t>(k);
  if (!FormatOf(type).quantised()) return groups * elements * kRowGroup * sizeof(float);
  return groups * (elements / kQuantBlock) * kPackedBlockBytes;
}

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
