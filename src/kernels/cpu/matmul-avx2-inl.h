// Tiles of matrix products with AVX2: a panel's 16 output features in two halves of 8, up to 4
// rows; reference_matmul.cc defines them. Included by one file of one instruction set, after
// vec-avx2-inl.h and before matmul-inl.h.
//
// A type of weights is a policy: its layout (matmul-tile-inl.h), and
//   kBothHalvesRows  up to so many rows compute both halves of a panel at once, which then share
//   the
//                    broadcasts of x; more rows do not fit in the registers,
//   Dot(lines, x)    of quantised types: the integer sums of R rows and H halves, from one of the
//                    schemes below.
#ifndef ROPEWAY_KERNELS_CPU_MATMUL_AVX2_INL_H_
#define ROPEWAY_KERNELS_CPU_MATMUL_AVX2_INL_H_

#include "kernels/cpu/matmul-tile-inl.h"
#include "kernels/layout.h"

namespace ropeway::kernels {
namespace {

constexpr int kMaxRows = 4;  // Rows of one tile: what sixteen registers hold.

RW_INLINE __m256i BroadcastInt(const uint8_t* at) {
  int32_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return _mm256_set1_epi32(value);
}

RW_INLINE __m256 BroadcastFloat(const uint8_t* at) {
  return _mm256_broadcast_ss(reinterpret_cast<const float*>(at));
}

RW_INLINE __m256i LoadInts(const uint8_t* at) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
}

RW_INLINE __m256 Scale8(const uint8_t* at) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
}

// sum + the sums of two products of u (unsigned) and the four bytes at x, in 16 bits. GCC would
// turn a chain of integer sums into a tree, whose leaves do not fit in sixteen registers; the empty
// statement prevents that.
RW_INLINE __m256i AddPairs(__m256i sum, __m256i u, const uint8_t* x) {
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(u, BroadcastInt(x)));
  __asm__("" : "+x"(sum));
  return sum;
}

// Dot products of weights of 4 bits: line i holds features 4i .. in its low nibbles and 16 + 4i ..
// in its high ones. The sums are at most 2 * 8 * 15 * 127 = 30480 in 16 bits.
template <int R, int H>
RW_INLINE void Dot4Bits(const uint8_t* lines, const uint8_t* x, __m256i (&sum)[R][H]) {
  const __m256i low_bits = _mm256_set1_epi8(15);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) sum[r][h] = _mm256_setzero_si256();
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const __m256i both = LoadInts(lines + 64 * i + 32 * h);
      const __m256i low = _mm256_and_si256(both, low_bits);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r][h] = AddPairs(sum[r][h], low, x + 16 * i + 4 * r);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), low_bits);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r][h] = AddPairs(sum[r][h], high, x + 16 * (i + 4) + 4 * r);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) sum[r][h] = _mm256_madd_epi16(sum[r][h], _mm256_set1_epi16(1));
  }
}

// Dot products of weights of 8 bits, stored plus 128: 16 * (high nibbles) + (low nibbles), each
// like weights of 4 bits.
template <int R, int H>
RW_INLINE void Dot8Bits(const uint8_t* lines, const uint8_t* x, __m256i (&sum)[R][H]) {
  const __m256i low_bits = _mm256_set1_epi8(15);
  __m256i high_sum[R][H];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) sum[r][h] = high_sum[r][h] = _mm256_setzero_si256();
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const __m256i both = LoadInts(lines + 64 * i + 32 * h);
      const __m256i low = _mm256_and_si256(both, low_bits);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), low_bits);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        sum[r][h] = AddPairs(sum[r][h], low, x + 16 * i + 4 * r);
        high_sum[r][h] = AddPairs(high_sum[r][h], high, x + 16 * i + 4 * r);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      sum[r][h] = _mm256_add_epi32(_mm256_madd_epi16(sum[r][h], _mm256_set1_epi16(1)),
                                   _mm256_madd_epi16(high_sum[r][h], _mm256_set1_epi16(16)));
    }
  }
}

struct Q41 : Q41Layout {
  static constexpr int kBothHalvesRows = 4;
  template <int R, int H>
  static inline __attribute__((always_inline)) void Dot(const uint8_t* lines, const uint8_t* x,
                                                        __m256i (&sum)[R][H]) {
    Dot4Bits(lines, x, sum);
  }
};

struct Q40 : Q40Layout {
  static constexpr int kBothHalvesRows = 4;
  template <int R, int H>
  static inline __attribute__((always_inline)) void Dot(const uint8_t* lines, const uint8_t* x,
                                                        __m256i (&sum)[R][H]) {
    Dot4Bits(lines, x, sum);
  }
};

struct Q80 : Q80Layout {
  static constexpr int kBothHalvesRows = 2;
  template <int R, int H>
  static inline __attribute__((always_inline)) void Dot(const uint8_t* lines, const uint8_t* x,
                                                        __m256i (&sum)[R][H]) {
    Dot8Bits(lines, x, sum);
  }
};

// F32 (kHalf = false) and F16.
template <bool kHalf>
struct Floats : FloatsLayout {
  static constexpr int kBothHalvesRows = kMaxRows;
};

// One step of R rows (of one group) for H halves from `half` on: adds block b to acc[r][h] as
// docs/numerics.md defines it.
template <typename Type, int R, int H>
RW_INLINE void Step(Type /*type*/, const uint8_t* panel, size_t b, int half, const uint8_t* group,
                    __m256 (&acc)[R][H]) {
  const BlockAddress block = Type::At(panel, b);
  const uint8_t* x = group + b * kPackedBlockBytes;
  __m256i sum[R][H];
  Type::Dot(block.lines + 32 * half, x, sum);
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const __m256 d = Scale8(block.d + 16 * (half + h));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      __m256i s = sum[r][h];
      if (Type::kAuxIsOffset) s = _mm256_add_epi32(s, BroadcastInt(x + kPackedAuxOffset + 4 * r));
      const __m256 scale = _mm256_mul_ps(d, BroadcastFloat(x + kPackedScaleOffset + 4 * r));
      acc[r][h] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(s), acc[r][h]);
    }
    if (Type::kHasMin) {
      const __m256 m = Scale8(block.m + 16 * (half + h));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        acc[r][h] = _mm256_fmadd_ps(m, BroadcastFloat(x + kPackedAuxOffset + 4 * r), acc[r][h]);
      }
    }
  }
}

template <bool kHalf, int R, int H>
RW_INLINE void Step(Floats<kHalf> /*type*/, const uint8_t* panel, size_t k, int half,
                    const uint8_t* group, __m256 (&acc)[R][H]) {
  const uint8_t* at = panel + k * (kHalf ? 32 : 64);
  const uint8_t* x = group + k * kRowGroup * sizeof(float);
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const __m256 w = kHalf ? Scale8(at + 16 * (half + h))
                           : _mm256_load_ps(reinterpret_cast<const float*>(at) + 8 * (half + h));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      acc[r][h] = _mm256_fmadd_ps(w, BroadcastFloat(x + 4 * r), acc[r][h]);
  }
}

// R rows and H halves of one panel, the accumulators in registers from the first block to the last.
template <typename Type, int R, int H>
RW_INLINE void MultiplyHalves(const uint8_t* panel, int k, Fetch* fetch, const uint8_t* group,
                              int half, int cols, float* y, int64_t y_stride) {
  __m256 acc[R][H];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) acc[r][h] = _mm256_setzero_ps();
  }
  const size_t steps = static_cast<size_t>(k / Type::kElements);
  for (size_t b = 0; b < steps; ++b) {
    fetch->template Step<Type::kFetchLines>();
    Step(Type(), panel, b, half, group, acc);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const int column = 8 * (half + h);
      _mm256_maskstore_ps(y + r * y_stride + column, LanesBelow(cols, column), acc[r][h]);
    }
  }
}

template <typename Type, int R>
static void MultiplyTile(const uint8_t* panel, int k, Fetch fetch, const TileRows& rows, int cols,
                         float* y, int64_t y_stride) {
  if constexpr (R <= Type::kBothHalvesRows) {
    MultiplyHalves<Type, R, 2>(panel, k, &fetch, rows.group, 0, cols, y, y_stride);
  } else {
    MultiplyHalves<Type, R, 1>(panel, k, &fetch, rows.group, 0, cols, y, y_stride);
    fetch = {rows.group, 0};  // The panel is in the cache.
    MultiplyHalves<Type, R, 1>(panel, k, &fetch, rows.group, 1, cols, y, y_stride);
  }
}

struct TileFunctions {
  TileFunction rows[kMaxRows + 1];
};

template <typename Type>
constexpr TileFunctions TilesOf() {
  return {{nullptr, MultiplyTile<Type, 1>, MultiplyTile<Type, 2>, MultiplyTile<Type, 3>,
           MultiplyTile<Type, 4>}};
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_MATMUL_AVX2_INL_H_
