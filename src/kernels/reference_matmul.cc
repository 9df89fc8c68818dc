// Quantising activations and multiplying them with weights: the definition.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/layout.h"
#include "kernels/math_constants.h"
#include "kernels/reference.h"

namespace ropeway::kernels::reference {
namespace {

constexpr int kBlock = static_cast<int>(kQuantBlock);

// Round to nearest, ties to even. REQUIRES: |x| < 2^22.
int32_t RoundToInt(float x) {
  return std::bit_cast<int32_t>(x + RW_ROUND_MAGIC) - RW_ROUND_MAGIC_BITS;
}

// Packs one block of one row; `to` is the block of the row's group.
void PackBlock(const WeightFormat& format, const float* x, int row, std::byte* to) {
  int8_t q[kBlock];
  const float d = Quantise(x, kBlock, q);
  for (int j = 0; j < kBlock / 4; ++j) std::memcpy(to + j * 16 + row * 4, q + 4 * j, 4);
  std::memcpy(to + kPackedScaleOffset + row * 4, &d, 4);
  int32_t sum = 0;
  for (const int8_t value : q) sum += value;
  const float scaled_sum = d * static_cast<float>(sum);
  const int32_t offset = -format.offset * sum;
  std::byte* aux = to + kPackedAuxOffset + row * 4;
  if (format.has_min) {
    std::memcpy(aux, &scaled_sum, 4);
  } else {
    std::memcpy(aux, &offset, 4);
  }
}

// One block of one panel: integer weights [16 columns][32] as stored, and their scales.
struct WeightBlock {
  int16_t q[kPanelCols][kBlock];
  float d[kPanelCols];
  float m[kPanelCols];
};

void LoadScales(const std::byte* from, float (&scales)[kPanelCols]) {
  for (int c = 0; c < kPanelCols; ++c) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * c, 2);
    scales[c] = HalfToFloat(bits);
  }
}

void LoadBlock(const WeightFormat& format, const std::byte* panel, size_t b, WeightBlock* block) {
  LoadScales(panel + format.ScaleOffset(b), block->d);
  if (format.has_min) LoadScales(panel + format.ScaleOffset(b) + 32, block->m);
  const std::byte* lines = panel + format.LinesOffset(b);
  for (int c = 0; c < kPanelCols; ++c) {
    for (int i = 0; i < static_cast<int>(format.lines) * 4; ++i) {
      const int byte = static_cast<int>(lines[i / 4 * 64 + c * 4 + i % 4]);
      if (format.lines == 8) {
        block->q[c][i] = static_cast<int16_t>(byte);
      } else {
        block->q[c][i] = static_cast<int16_t>(byte & 15);
        block->q[c][i + kBlock / 2] = static_cast<int16_t>(byte >> 4);
      }
    }
  }
}

int32_t Dot(const int16_t* a, const int16_t* b) {
  int32_t sum = 0;
  for (int i = 0; i < kBlock; ++i) sum += a[i] * b[i];
  return sum;
}

// acc[c] += the block's contribution for one row; `packed` is the block of the row's group.
void MultiplyBlock(bool has_min, const WeightBlock& w, const std::byte* packed, int row,
                   float (&acc)[kPanelCols]) {
  int16_t x[kBlock];
  for (int i = 0; i < kBlock; ++i) {
    x[i] = static_cast<int8_t>(packed[i / 4 * 16 + row * 4 + i % 4]);
  }
  float dx = 0.0F;
  std::memcpy(&dx, packed + kPackedScaleOffset + row * 4, 4);
  const std::byte* aux = packed + kPackedAuxOffset + row * 4;
  int32_t offset = 0;
  float scaled_sum = 0.0F;
  if (has_min) {
    std::memcpy(&scaled_sum, aux, 4);
  } else {
    std::memcpy(&offset, aux, 4);
  }
  for (int c = 0; c < kPanelCols; ++c) {
    const int32_t dot = Dot(w.q[c], x) + offset;
    acc[c] = std::fma(w.d[c] * dx, static_cast<float>(dot), acc[c]);
    if (has_min) acc[c] = std::fma(w.m[c], scaled_sum, acc[c]);
  }
}

// One panel of F32 (width 4) or F16 (width 2) weights for one row.
void MultiplyFloats(size_t width, const std::byte* panel, const std::byte* group, int row, int k,
                    float (&acc)[kPanelCols]) {
  for (int i = 0; i < k; ++i) {
    float x = 0.0F;
    std::memcpy(&x, group + (static_cast<size_t>(i) * kRowGroup + static_cast<size_t>(row)) * 4, 4);
    for (int c = 0; c < kPanelCols; ++c) {
      const size_t at = static_cast<size_t>(i) * kPanelCols + static_cast<size_t>(c);
      float w = 0.0F;
      if (width == 4) {
        std::memcpy(&w, panel + at * 4, 4);
      } else {
        uint16_t bits = 0;
        std::memcpy(&bits, panel + at * 2, 2);
        w = HalfToFloat(bits);
      }
      acc[c] = std::fma(w, x, acc[c]);
    }
  }
}

}  // namespace

float Quantise(const float* x, int n, int8_t* q) {
  // Among non-negative floats, infinity and NaN, the order of the bits is the order of the values.
  uint32_t max_bits = 0;
  for (int i = 0; i < n; ++i) {
    max_bits = std::max(max_bits, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
  }
  for (int i = 0; i < n; ++i) q[i] = 0;
  if (max_bits >= RW_INF_BITS) return std::bit_cast<float>(RW_NAN_BITS);
  if (max_bits < RW_QUANT_MIN_BITS) return 0.0F;
  const float max = std::bit_cast<float>(max_bits);
  const float inverse = 127.0F / max;
  // |x * inverse| < 127.5: two roundings cannot take 127 half a step further.
  for (int i = 0; i < n; ++i) q[i] = static_cast<int8_t>(RoundToInt(x[i] * inverse));
  return max / 127.0F;
}

void PackRows(WeightType type, const float* x, int64_t x_stride, int row_begin, int row_end, int k,
              std::byte* packed) {
  const WeightFormat& format = FormatOf(type);
  const size_t group_bytes = PackedRowsBytes(type, kRowGroup, k);
  for (int r = row_begin; r < row_end; ++r) {
    const float* from = x + r * x_stride;
    const int in_group = r % kRowGroup;
    std::byte* group = packed + static_cast<size_t>(r / kRowGroup) * group_bytes;
    if (in_group == 0 && r + kRowGroup > row_end) std::memset(group, 0, group_bytes);
    if (format.quantised()) {
      for (int b = 0; b < k / kBlock; ++b) {
        PackBlock(format, from + b * kBlock, in_group,
                  group + static_cast<size_t>(b) * kPackedBlockBytes);
      }
    } else {
      for (int i = 0; i < k; ++i) {
        std::memcpy(
            group + (static_cast<size_t>(i) * kRowGroup + static_cast<size_t>(in_group)) * 4,
            from + i, 4);
      }
    }
  }
}

void MatMul(const Matrix& w, const std::byte* packed, int rows, int panel_begin, int panel_end,
            float* y, int64_t y_stride) {
  constexpr int kTile = 16;  // Rows for which an unpacked block of weights is reused.
  const WeightFormat& format = FormatOf(w.type);
  const size_t panel_bytes = PanelBytes(w.type, w.k);
  const size_t group_bytes = PackedRowsBytes(w.type, kRowGroup, w.k);
  for (int p = panel_begin; p < panel_end; ++p) {
    const std::byte* panel = w.panels + static_cast<size_t>(p) * panel_bytes;
    const int cols = std::min(kPanelCols, w.n - p * kPanelCols);
    for (int first = 0; first < rows; first += kTile) {
      const int tile = std::min(kTile, rows - first);
      float acc[kTile][kPanelCols] = {};
      const auto group_of = [&](int r) {
        return packed + static_cast<size_t>((first + r) / kRowGroup) * group_bytes;
      };
      if (format.quantised()) {
        WeightBlock block;
        for (size_t b = 0; b < static_cast<size_t>(w.k) / kQuantBlock; ++b) {
          LoadBlock(format, panel, b, &block);
          for (int r = 0; r < tile; ++r) {
            MultiplyBlock(format.has_min, block, group_of(r) + b * kPackedBlockBytes,
                          (first + r) % kRowGroup, acc[r]);
          }
        }
      } else {
        for (int r = 0; r < tile; ++r) {
          MultiplyFloats(format.block_bytes, panel, group_of(r), (first + r) % kRowGroup, w.k,
                         acc[r]);
        }
      }
      for (int r = 0; r < tile; ++r) {
        std::memcpy(y + (first + r) * y_stride + static_cast<int64_t>(p) * kPanelCols, acc[r],
                    static_cast<size_t>(cols) * sizeof(float));
      }
    }
  }
}

}  // namespace ropeway::kernels::reference
