// Quantising activations and multiplying them with weights: the definition.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/layout.h"
#include "kernels/math_constants.h"
#include "kernels/reference.h"
#include "kernels/weight_format.h"

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
  const int parts = format.of_parts() ? 2 : 1;
  for (int part = 0; part < parts; ++part) {
    int32_t sum = 0;
    for (int i = kBlock / parts * part; i < kBlock / parts * (part + 1); ++i) sum += q[i];
    const float scaled_sum = d * static_cast<float>(sum);
    const int32_t offset = -format.offset() * sum;
    std::byte* aux = to + kPackedAuxOffset + part * 16 + row * 4;
    if (format.has_min()) {
      std::memcpy(aux, &scaled_sum, 4);
    } else {
      std::memcpy(aux, &offset, 4);
    }
  }
}

int32_t Dot(const int16_t* a, const int16_t* b, int n) {
  int32_t sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// One block of one row, as packed.
struct RowBlock {
  int16_t q[kBlock];
  float d = 0.0F;
  int32_t offset[2] = {};    // Types without a minimum: of each part.
  float scaled_sum[2] = {};  // Types with a minimum.
};

// `packed`: the block of the row's group.
RowBlock LoadRow(const WeightFormat& format, const std::byte* packed, int row) {
  RowBlock block;
  for (int i = 0; i < kBlock; ++i) {
    block.q[i] = static_cast<int8_t>(packed[i / 4 * 16 + row * 4 + i % 4]);
  }
  std::memcpy(&block.d, packed + kPackedScaleOffset + row * 4, 4);
  for (int part = 0; part < (format.of_parts() ? 2 : 1); ++part) {
    const std::byte* aux = packed + kPackedAuxOffset + part * 16 + row * 4;
    if (format.has_min()) {
      std::memcpy(&block.scaled_sum[part], aux, 4);
    } else {
      std::memcpy(&block.offset[part], aux, 4);
    }
  }
  return block;
}

// acc += the product of a row's block and a column's.
float MultiplyBlock(const WeightFormat& format, const ColumnBlock& w, const RowBlock& x,
                    float acc) {
  if (format.of_parts()) {
    constexpr int kPart = kBlock / 2;
    const int32_t dot0 = Dot(w.q, x.q, kPart) + x.offset[0];
    const int32_t dot1 = Dot(w.q + kPart, x.q + kPart, kPart) + x.offset[1];
    float u = w.scale[0] * static_cast<float>(dot0);
    u = std::fma(w.scale[1], static_cast<float>(dot1), u);
    acc = std::fma(u, x.d, acc);
  } else {
    const int32_t dot = Dot(w.q, x.q, kBlock) + x.offset[0];
    acc = std::fma(w.scale[0] * x.d, static_cast<float>(dot), acc);
  }
  if (format.has_min()) {
    acc = std::fma(w.min[0], x.scaled_sum[0], acc);
    if (format.of_parts()) acc = std::fma(w.min[1], x.scaled_sum[1], acc);
  }
  return acc;
}

// One panel of weights that are not quantised for one row.
void MultiplyFloats(WeightType type, const std::byte* panel, const std::byte* group, int row, int k,
                    float (&acc)[kPanelCols]) {
  const size_t width = FormatOf(type).block_bytes;
  for (int i = 0; i < k; ++i) {
    float x = 0.0F;
    std::memcpy(&x, group + (static_cast<size_t>(i) * kRowGroup + static_cast<size_t>(row)) * 4, 4);
    for (int c = 0; c < kPanelCols; ++c) {
      const size_t at = static_cast<size_t>(i) * kPanelCols + static_cast<size_t>(c);
      acc[c] = std::fma(FloatElement(type, panel + at * width), x, acc[c]);
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
                  group + static_cast<size_t>(b) * format.packed_block_bytes());
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
        ColumnBlock columns[kPanelCols];
        for (size_t b = 0; b < static_cast<size_t>(w.k) / kQuantBlock; ++b) {
          for (int c = 0; c < kPanelCols; ++c) {
            LoadColumn(format, panel, b, static_cast<size_t>(c), &columns[c]);
          }
          for (int r = 0; r < tile; ++r) {
            const RowBlock x = LoadRow(format, group_of(r) + b * format.packed_block_bytes(),
                                       (first + r) % kRowGroup);
            for (int c = 0; c < kPanelCols; ++c) {
              acc[r][c] = MultiplyBlock(format, columns[c], x, acc[r][c]);
            }
          }
        }
      } else {
        for (int r = 0; r < tile; ++r) {
          MultiplyFloats(w.type, panel, group_of(r), (first + r) % kRowGroup, w.k, acc[r]);
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
