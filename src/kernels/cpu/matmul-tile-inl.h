// The arguments of a tile of a matrix product: some rows times one panel of weights.
// Included by matmul-avx512-inl.h, matmul-avx2-inl.h and matmul-inl.h.
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

// Block b of a panel: 16 f16 scales d, 16 f16 minima m (where the type has them), and the lines.
struct BlockAddress {
  const uint8_t* d;
  const uint8_t* m;
  const uint8_t* lines;
};

// The layout (layout.h) of each quantised type; each instruction set derives from it and adds the
// arithmetic.
//   kElements      features of one step,
//   kFetchLines    lines of 64 bytes that a step prefetches,
//   kAuxIsOffset   the packed rows' aux is added to the integer sums,
//   kHasMin        m * aux is added to acc after d * dx * dot,
//   At(panel, b)   the address of block b of 32 features.
struct Q41Layout {
  static constexpr int kElements = 32;
  static constexpr int kFetchLines = 5;
  static constexpr bool kAuxIsOffset = false;
  static constexpr bool kHasMin = true;
  static inline __attribute__((always_inline)) BlockAddress At(const uint8_t* panel, size_t b) {
    const uint8_t* block = panel + b * kQ41BlockBytes;
    return {block, block + 32, block + kQ41DataOffset};
  }
};

struct Q40Layout {
  static constexpr int kElements = 32;
  static constexpr int kFetchLines = 5;
  static constexpr bool kAuxIsOffset = true;
  static constexpr bool kHasMin = false;
  static inline __attribute__((always_inline)) BlockAddress At(const uint8_t* panel, size_t b) {
    const uint8_t* pair = panel + b / 2 * kQ40PairBytes;
    return {pair + b % 2 * 32, nullptr, pair + 64 + b % 2 * 256};
  }
};

struct Q80Layout {
  static constexpr int kElements = 32;
  static constexpr int kFetchLines = 9;
  static constexpr bool kAuxIsOffset = true;
  static constexpr bool kHasMin = false;
  static inline __attribute__((always_inline)) BlockAddress At(const uint8_t* panel, size_t b) {
    const uint8_t* pair = panel + b / 2 * kQ80PairBytes;
    return {pair + b % 2 * 32, nullptr, pair + 64 + b % 2 * 512};
  }
};

// F32 and F16: one feature a step; groups of rows are [k][4] f32.
struct FloatsLayout {
  static constexpr int kElements = 1;
  static constexpr int kFetchLines = 1;
};

// cols: output features of the panel that y has, at least one; more than kPanelCols count as that.
using TileFunction = void (*)(const uint8_t* panel, int k, Fetch fetch, const TileRows& rows,
                              int cols, float* y, int64_t y_stride);

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_MATMUL_TILE_INL_H_
