// The arguments of a tile of a matrix product: some rows times one panel of weights.
// Included by matmul-types-inl.h, matmul-avx512-inl.h, matmul-avx2-inl.h and matmul-inl.h.
#ifndef ROPEWAY_KERNELS_CPU_MATMUL_TILE_INL_H_
#define ROPEWAY_KERNELS_CPU_MATMUL_TILE_INL_H_

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace ropeway::kernels {
namespace {

// A tile's activations: groups of kRowGroup packed rows.
struct TileRows {
  const uint8_t* group;  // Of the tile's first row.
  size_t group_bytes;
};

// What the tile prefetches while it computes: each step advances by `stride` bytes.
struct Fetch {
  const uint8_t* next;
  size_t stride;

  // kLines: of 64 bytes, at least a stride. A constant, although a smaller stride needs fewer:
  // prefetching a cached line costs little, and a loop here would hide the end of the tile's own
  // loop from the branch predictor.
  template <int kLines>
  inline __attribute__((always_inline)) void Step() {
#pragma GCC unroll 9
    for (int i = 0; i < kLines; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(next + 64 * i), _MM_HINT_T0);
    }
    next += stride;
  }
};

// cols: output features of the panel that y has, at least one; more than kPanelCols count as that.
using TileFunction = void (*)(const uint8_t* panel, int k, Fetch fetch, const TileRows& rows,
                              int cols, float* y, int64_t y_stride);

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_MATMUL_TILE_INL_H_
