// Tiles of matrix products with VNNI: a panel's 16 output features in one register, up to 12 rows.
// reference_matmul.cc defines them. Included by one file of one instruction set, after
// vec-avx512-inl.h and before matmul-inl.h.
//
// A type of weights is a policy: its layout (matmul-tile-inl.h) and an unpacker. Quantised types
// add
//   Unpack(lines, i)  features 4i .. 4i + 3 of each column as unsigned bytes, and 16 + 4i ...
#ifndef ROPEWAY_KERNELS_CPU_MATMUL_AVX512_INL_H_
#define ROPEWAY_KERNELS_CPU_MATMUL_AVX512_INL_H_

#include "kernels/cpu/matmul-tile-inl.h"
#include "kernels/layout.h"

namespace ropeway::kernels {
namespace {

constexpr int kMaxRows = 12;  // Rows of one tile: 12 int and 12 float accumulators.

RW_INLINE __m512i BroadcastInt(const uint8_t* at) {
  int32_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return _mm512_set1_epi32(value);
}

RW_INLINE __m512 BroadcastFloat(const uint8_t* at) {
  float value;
  __builtin_memcpy(&value, at, sizeof value);
  return _mm512_set1_ps(value);
}

RW_INLINE __m512 Scale16(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
}

struct TwoLines {
  __m512i w[2];
};

// Four bits: line i holds features 4i .. in its low nibbles and 16 + 4i .. in its high ones.
RW_INLINE TwoLines Unpack4Bits(const uint8_t* lines, int i) {
  const __m512i low_bits = _mm512_set1_epi8(15);
  const __m512i both = _mm512_load_si512(lines + 64 * i);
  return {
      {_mm512_and_si512(both, low_bits), _mm512_and_si512(_mm512_srli_epi16(both, 4), low_bits)}};
}

struct Q41 : Q41Layout {
  static inline __attribute__((always_inline)) TwoLines Unpack(const uint8_t* lines, int i) {
    return Unpack4Bits(lines, i);
  }
};

struct Q40 : Q40Layout {
  static inline __attribute__((always_inline)) TwoLines Unpack(const uint8_t* lines, int i) {
    return Unpack4Bits(lines, i);
  }
};

struct Q80 : Q80Layout {
  static inline __attribute__((always_inline)) TwoLines Unpack(const uint8_t* lines, int i) {
    return {{_mm512_load_si512(lines + 64 * i), _mm512_load_si512(lines + 64 * (i + 4))}};
  }
};

// F32 (kHalf = false) and F16.
template <bool kHalf>
struct Floats : FloatsLayout {};

// One step of R rows: adds block b to acc[r] as docs/numerics.md defines it.
template <typename Type, int R>
RW_INLINE void Step(Type /*type*/, const uint8_t* panel, size_t b, const TileRows& rows,
                    __m512 (&acc)[R]) {
  const BlockAddress block = Type::At(panel, b);
  const uint8_t* x[R];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    x[r] = rows.group + static_cast<size_t>(r / kRowGroup) * rows.group_bytes +
           b * kPackedBlockBytes + r % kRowGroup * 4;
  }
  // Few rows: two chains of dot products each, for their latency; many: registers are scarce.
  constexpr bool kTwoChains = R <= 4;
  __m512i sum[R];
  __m512i sum2[R];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    sum[r] = Type::kAuxIsOffset ? BroadcastInt(x[r] + kPackedAuxOffset) : _mm512_setzero_si512();
    sum2[r] = _mm512_setzero_si512();
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const TwoLines lines = Type::Unpack(block.lines, i);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      sum[r] = _mm512_dpbusd_epi32(sum[r], lines.w[0], BroadcastInt(x[r] + 16 * i));
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      __m512i& s = kTwoChains ? sum2[r] : sum[r];
      s = _mm512_dpbusd_epi32(s, lines.w[1], BroadcastInt(x[r] + 16 * (i + 4)));
    }
  }
  const __m512 d = Scale16(block.d);
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const __m512i s = kTwoChains ? _mm512_add_epi32(sum[r], sum2[r]) : sum[r];
    const __m512 scale = _mm512_mul_ps(d, BroadcastFloat(x[r] + kPackedScaleOffset));
    acc[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(s), acc[r]);
  }
  if (Type::kHasMin) {
    const __m512 m = Scale16(block.m);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      acc[r] = _mm512_fmadd_ps(m, BroadcastFloat(x[r] + kPackedAuxOffset), acc[r]);
    }
  }
}

template <bool kHalf, int R>
RW_INLINE void Step(Floats<kHalf> /*type*/, const uint8_t* panel, size_t k, const TileRows& rows,
                    __m512 (&acc)[R]) {
  const uint8_t* at = panel + k * (kHalf ? 32 : 64);
  const __m512 w = kHalf ? Scale16(at) : _mm512_load_ps(reinterpret_cast<const float*>(at));
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const uint8_t* group = rows.group + static_cast<size_t>(r / kRowGroup) * rows.group_bytes;
    acc[r] = _mm512_fmadd_ps(w, BroadcastFloat(group + k * 16 + r % kRowGroup * 4), acc[r]);
  }
}

// One panel for R rows, the accumulators in registers from the first block to the last. One panel
// is enough even for one row: the core overlaps the dot products of consecutive blocks by itself,
// and several panels at once would read several streams of memory, each with its own cold start.
template <typename Type, int R>
static void MultiplyTile(const uint8_t* panel, int k, Fetch fetch, const TileRows& rows, int cols,
                         float* y, int64_t y_stride) {
  __m512 acc[R];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
  const size_t steps = static_cast<size_t>(k / Type::kElements);
  for (size_t b = 0; b < steps; ++b) {
    // For so few rows even prefetching a cached line costs; they are never one of several tiles.
    if constexpr (R > 2) fetch.template Step<Type::kFetchLines>();
    Step(Type(), panel, b, rows, acc);
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    _mm512_mask_storeu_ps(y + r * y_stride, FirstLanes(cols), acc[r]);
  }
}

struct TileFunctions {
  TileFunction rows[kMaxRows + 1];
};

template <typename Type>
constexpr TileFunctions TilesOf() {
  return {{nullptr, MultiplyTile<Type, 1>, MultiplyTile<Type, 2>, MultiplyTile<Type, 3>,
           MultiplyTile<Type, 4>, MultiplyTile<Type, 5>, MultiplyTile<Type, 6>,
           MultiplyTile<Type, 7>, MultiplyTile<Type, 8>, MultiplyTile<Type, 9>,
           MultiplyTile<Type, 10>, MultiplyTile<Type, 11>, MultiplyTile<Type, 12>}};
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_MATMUL_AVX512_INL_H_
