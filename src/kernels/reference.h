// Internal to this room: the functions of the reference table. Each defines the meaning of the
// Kernels member of the same name to the bit, in plain C++, one operation per line of
// docs/numerics.md.
#ifndef ROPEWAY_KERNELS_REFERENCE_H_
#define ROPEWAY_KERNELS_REFERENCE_H_

#include "kernels/kernels.h"

namespace ropeway::kernels::reference {

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

}  // namespace ropeway::kernels::reference

#endif  // ROPEWAY_KERNELS_REFERENCE_H_
