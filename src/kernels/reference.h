// Internal to this room: the formats of weights, and the functions of the reference table. Each
// function defines the meaning of the Kernels member of the same name to the bit, in plain C++, one
// operation per line of docs/numerics.md.
#ifndef ROPEWAY_KERNELS_REFERENCE_H_
#define ROPEWAY_KERNELS_REFERENCE_H_

#include "kernels/kernels.h"

namespace ropeway::kernels {

// How weights of one type are stored. A quantised panel consists of units: the f16 scales of one or
// two blocks (64 bytes), then the lines of the first block, then those of the second.
struct WeightFormat {
  const char* name;
  size_t block_elements;  // 1: not quantised.
  size_t block_bytes;     // In the file: [f16 d][f16 m if has_min][integers].
  size_t unit_blocks = 0;
  size_t unit_bytes = 0;
  size_t lines = 0;      // Lines of 64 bytes per block: 4 of 4-bit weights, 8 of 8-bit weights.
  bool has_min = false;  // The weight is fma(d, q, m), else d * (q - offset).
  int offset = 0;
  int byte_bias = 0;  // A byte in the panel is the file's byte plus this, modulo 256.

  bool quantised() const { return block_elements > 1; }
  // Offsets in a panel of block b: 16 f16 scales d (32 bytes later m), and its first line.
  size_t ScaleOffset(size_t b) const { return b / unit_blocks * unit_bytes + b % unit_blocks * 32; }
  size_t LinesOffset(size_t b) const {
    return b / unit_blocks * unit_bytes + 64 + b % unit_blocks * lines * 64;
  }
};

const WeightFormat& FormatOf(WeightType type);

namespace reference {

inline constexpr int kLanes = 16;  // Virtual lanes of every sum over elements.

// The fixed tree: lane i + lane i + 8, then + 4, + 2, + 1.
float SumLanes(const float (&lanes)[kLanes]);
float Exp(float x);
float Log(float x);
// cap * tanh(x / cap).
float SoftCap(float x, float cap);
// The larger one; a NaN never wins.
float MaxIgnoringNan(float a, float b);
// Quantises n elements that share one scale to q; returns the scale.
float Quantise(const float* x, int n, int8_t* q);

void PackRows(WeightType type, const float* x, int64_t x_stride, int row_begin, int row_end, int k,
              std::byte* packed);
void MatMul(const Matrix& w, const std::byte* packed, int rows, int panel_begin, int panel_end,
            float* y, int64_t y_stride);
void StoreKv(KvType type, const float* k, const float* v, int head_dim, int slot, std::byte* block);
void Attention(const AttentionArgs& args, int split, float* partial);
void AttentionMerge(const float* partials, int splits, int64_t split_stride, int head_dim,
                    const float* sink, float* out);

}  // namespace reference
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_REFERENCE_H_
