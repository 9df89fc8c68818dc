// Quantising activations and multiplying them with weights: the definition.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/half.h"
#include "kernels/layout.h"
#include "kernels/math_constants.h"
#include "kernels/reference.h"

namespace ropeway::reference {
namespace {

constexpr int kBlock = static_cast<int>(kQuantBlock);

struct QuantisedBlock {
  int8_t q[kBlock];
  float d;
  int32_t sum;
};

// Round to nearest, ties to even. REQUIRES: |x| < 2^22.
int32_t RoundToInt(float x) {
  return std::bit_cast<int32_t>(x + RW_ROUND_MAGIC) - RW_ROUND_MAGIC_BITS;
}

QuantisedBlock Quantise(const float* x) {
  // Among non-negative floats, infinity and NaN, the order of the bits is the order of the values.
  uint32_t max_bits = 0;
  for (int i = 0; i < kBlock; ++i) {
    max_bits = std::max(max_bits, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
  }
  QuantisedBlock block = {};
  if (max_bits >= RW_INF_BITS) {
    block.d = std::bit_cast<float>(RW_NAN_BITS);
    return block;
  }
  if (max_bits < RW_QUANT_MIN_BITS) return block;
  const float max = std::bit_cast<float>(max_bits);
  const float inverse = 127.0F / max;
  block.d = max / 127.0F;
  for (int i = 0; i < kBlock; ++i) {
    // |x * inverse| < 127.5: two roundings cannot take 127 half a step further.
    const int32_t q = RoundToInt(x[i] * inverse);
    block.q[i] = static_cast<int8_t>(q);
    block.sum += q;
  }
  return block;
}

void StoreQuantised(WeightType type, const QuantisedBlock& block, int row, std::byte* to) {
  for (int j = 0; j < kBlock / 4; ++j) {
    std::memcpy(to + j * 16 + row * 4, block.q + 4 * j, 4);
  }
  std::memcpy(to + kPackedScaleOffset + row * 4, &block.d, 4);
  std::byte* aux = to + kPackedAuxOffset + row * 4;
  if (type == WeightType::kQ4_1) {
    const float scaled_sum = block.d * static_cast<float>(block.sum);
    std::memcpy(aux, &scaled_sum, 4);
  } else {
    const int32_t offset = type == WeightType::kQ4_0 ? -8 * block.sum : -128 * block.sum;
    std::memcpy(aux, &offset, 4);
  }
}

// One block of one panel: integer weights [16 columns][32] and their scales.
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

void LoadBlock(WeightType type, const std::byte* panel, size_t b, WeightBlock* block) {
  const std::byte* lines = nullptr;
  if (type == WeightType::kQ4_1) {
    const std::byte* at = panel + b * kQ41BlockBytes;
    LoadScales(at, block->d);
    LoadScales(at + 32, block->m);
    lines = at + kQ41DataOffset;
  } else if (type == WeightType::kQ4_0) {
    const std::byte* at = panel + b / 2 * kQ40PairBytes;
    LoadScales(at + b % 2 * 32, block->d);
    lines = at + 64 + b % 2 * 256;
  } else {
    const std::byte* at = panel + b / 2 * kQ80PairBytes;
    LoadScales(at + b % 2 * 32, block->d);
    lines = at + 64 + b % 2 * 512;
  }
  for (int c = 0; c < kPanelCols; ++c) {
    if (type == WeightType::kQ8_0) {
      for (int i = 0; i < kBlock; ++i) {
        block->q[c][i] =
            static_cast<int16_t>(static_cast<int>(lines[i / 4 * 64 + c * 4 + i % 4]) - 128);
      }
    } else {
      for (int i = 0; i < kBlock / 2; ++i) {
        const int byte = static_cast<int>(lines[i / 4 * 64 + c * 4 + i % 4]);
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
void MultiplyBlock(WeightType type, const WeightBlock& w, const std::byte* packed, int row,
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
  if (type == WeightType::kQ4_0) std::memcpy(&offset, aux, 4);
  if (type == WeightType::kQ4_1) std::memcpy(&scaled_sum, aux, 4);
  for (int c = 0; c < kPanelCols; ++c) {
    const int32_t dot = Dot(w.q[c], x) + offset;
    acc[c] = std::fma(w.d[c] * dx, static_cast<float>(dot), acc[c]);
    if (type == WeightType::kQ4_1) acc[c] = std::fma(w.m[c], scaled_sum, acc[c]);
  }
}

// Inputs [k_begin, k_end) of one panel of F32 or F16 weights for one row.
void MultiplyFloats(WeightType type, const std::byte* panel, const std::byte* group, int row, int k,
                    float (&acc)[kPanelCols]) {
  for (int i = 0; i < k; ++i) {
    float x = 0.0F;
    std::memcpy(&x, group + (static_cast<size_t>(i) * kRowGroup + static_cast<size_t>(row)) * 4, 4);
    for (int c = 0; c < kPanelCols; ++c) {
      const size_t at = static_cast<size_t>(i) * kPanelCols + static_cast<size_t>(c);
      float w = 0.0F;
      if (type == WeightType::kF32) {
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

void PackRows(WeightType type, const float* x, int64_t x_stride, int row_begin, int row_end, int k,
              std::byte* packed) {
  const size_t group_bytes = PackedRowsBytes(type, kRowGroup, k);
  const bool quantised = WeightBlockElements(type) > 1;
  for (int r = row_begin; r < row_end; ++r) {
    const float* from = x + r * x_stride;
    const int in_group = r % kRowGroup;
    std::byte* group = packed + static_cast<size_t>(r / kRowGroup) * group_bytes;
    if (in_group == 0 && r + kRowGroup > row_end) std::memset(group, 0, group_bytes);
    if (quantised) {
      for (int b = 0; b < k / kBlock; ++b) {
        StoreQuantised(type, Quantise(from + b * kBlock), in_group,
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
  constexpr int kTile = 16;  // Rows for which an unpacked block of weights is used again.
  const size_t panel_bytes = PanelBytes(w.type, w.k);
  const size_t group_bytes = PackedRowsBytes(w.type, kRowGroup, w.k);
  const bool quantised = WeightBlockElements(w.type) > 1;
  for (int p = panel_begin; p < panel_end; ++p) {
    const std::byte* panel = w.panels + static_cast<size_t>(p) * panel_bytes;
    const int cols = std::min(kPanelCols, w.n - p * kPanelCols);
    for (int first = 0; first < rows; first += kTile) {
      const int tile = std::min(kTile, rows - first);
      float acc[kTile][kPanelCols] = {};
      const auto group_of = [&](int r) {
        return packed + static_cast<size_t>((first + r) / kRowGroup) * group_bytes;
      };
      if (quantised) {
        WeightBlock block;
        for (size_t b = 0; b < static_cast<size_t>(w.k) / kQuantBlock; ++b) {
          LoadBlock(w.type, panel, b, &block);
          for (int r = 0; r < tile; ++r) {
            MultiplyBlock(w.type, block, group_of(r) + b * kPackedBlockBytes,
                          (first + r) % kRowGroup, acc[r]);
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

}  // namespace ropeway::reference
