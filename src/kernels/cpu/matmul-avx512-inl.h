// Tiles of matrix products with VNNI: a panel's 16 output features in one register, up to 12 rows.
// reference_matmul.cc defines them. Included by one file of one instruction set, after
// vec-avx512-inl.h and before matmul-inl.h.
#ifndef ROPEWAY_KERNELS_CPU_MATMUL_AVX512_INL_H_
#define ROPEWAY_KERNELS_CPU_MATMUL_AVX512_INL_H_

#include "kernels/kernels.h"
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

// What matmul-types-inl.h needs.
using Levels = __m512i;
using Columns = __m512;

RW_INLINE Levels LoadLevels(const uint8_t* at) { return _mm512_load_si512(at); }

// The bits of `mask` of each byte.
RW_INLINE Levels KeepBits(Levels a, int mask) {
  return _mm512_and_si512(a, _mm512_set1_epi8(static_cast<char>(mask)));
}

// a, and the bits of `mask` of each byte of b.
RW_INLINE Levels InsertBits(Levels a, Levels b, int mask) {
  constexpr int kAOrBAndC = 0xF8;
  return _mm512_ternarylogic_epi64(a, b, _mm512_set1_epi8(static_cast<char>(mask)), kAOrBAndC);
}

// Pairs of bytes, kBits down, or up if that is negative.
template <int kBits>
RW_INLINE Levels ShiftDown(Levels a) {
  if constexpr (kBits > 0) {
    return _mm512_srli_epi16(a, kBits);
  } else if constexpr (kBits < 0) {
    return _mm512_slli_epi16(a, -kBits);
  } else {
    return a;
  }
}

RW_INLINE Levels LookUp(const uint8_t (&values)[16], Levels index) {
  const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(values));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index);
}

RW_INLINE __m128i Load16Bytes(const uint8_t* at) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(at));
}

RW_INLINE Columns LoadColumns(const uint8_t* at) {
  return _mm512_load_ps(reinterpret_cast<const float*>(at));
}

RW_INLINE Columns HalfColumns(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
}

RW_INLINE Columns BFloatColumns(const uint8_t* at) {
  const __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

RW_INLINE Columns CodeColumns(const uint8_t* at) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(Load16Bytes(at)));
}

RW_INLINE Columns LowCodeColumns(const uint8_t* at) {
  const __m512i codes = _mm512_cvtepu8_epi32(Load16Bytes(at));
  return _mm512_cvtepi32_ps(_mm512_and_si512(codes, _mm512_set1_epi32(15)));
}

RW_INLINE Columns HighCodeColumns(const uint8_t* at) {
  return _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(Load16Bytes(at)), 4));
}

// 2^(e - 128): denormal for e < 2.
RW_INLINE Columns ExponentColumns(const uint8_t* at) {
  const __m512i e = _mm512_cvtepu8_epi32(Load16Bytes(at));
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __m512i denormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x200000), e);
  const __mmask16 small = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
  return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, small, denormal));
}

RW_INLINE Columns MulColumns(Columns a, Columns b) { return _mm512_mul_ps(a, b); }

}  // namespace
}  // namespace ropeway::kernels

#include "kernels/cpu/matmul-types-inl.h"

namespace ropeway::kernels {
namespace {

// The packed block b of row r of a tile: 4 bytes of the row every 16.
template <typename Type>
RW_INLINE const uint8_t* RowAt(const TileRows& rows, int r, size_t b) {
  return rows.group + static_cast<size_t>(r / kRowGroup) * rows.group_bytes +
         b * Type::kPackedBytes + r % kRowGroup * 4;
}

// Adds the products of lines kI and kI + 4 to the sums of R rows.
template <typename Type, int kI, bool kTwoChains, int R>
RW_INLINE void AddLines(const uint8_t* lines, const uint8_t* const (&x)[R], __m512i (&sum)[R],
                        __m512i (&sum2)[R]) {
  const Levels low = Type::template Line<kI>(lines);
  const Levels high = Type::template Line<kI + 4>(lines);
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    sum[r] = _mm512_dpbusd_epi32(sum[r], low, BroadcastInt(x[r] + 16 * kI));
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    __m512i& s = kTwoChains ? sum2[r] : sum[r];
    s = _mm512_dpbusd_epi32(s, high, BroadcastInt(x[r] + 16 * (kI + 4)));
  }
}

// Blocks of one scale: adds block b to acc[r] as docs/numerics.md defines it.
template <typename Type, int R>
RW_INLINE void BlockStep(const uint8_t* panel, size_t b, const TileRows& rows, __m512 (&acc)[R]) {
  const BlockAddress block = AddressOf<Type>(panel, b);
  const uint8_t* x[R];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) x[r] = RowAt<Type>(rows, r, b);
  // Few rows: two chains of dot products each, for their latency; many: registers are scarce.
  constexpr bool kTwoChains = R <= 4;
  __m512i sum[R];
  __m512i sum2[R];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    sum[r] = Type::kHasMin ? _mm512_setzero_si512() : BroadcastInt(x[r] + kPackedAuxOffset);
    sum2[r] = _mm512_setzero_si512();
  }
  AddLines<Type, 0, kTwoChains>(block.lines, x, sum, sum2);
  AddLines<Type, 1, kTwoChains>(block.lines, x, sum, sum2);
  AddLines<Type, 2, kTwoChains>(block.lines, x, sum, sum2);
  AddLines<Type, 3, kTwoChains>(block.lines, x, sum, sum2);
  const __m512 d = Type::Scale(block, 0);
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const __m512i s = kTwoChains ? _mm512_add_epi32(sum[r], sum2[r]) : sum[r];
    const __m512 scale = _mm512_mul_ps(d, BroadcastFloat(x[r] + kPackedScaleOffset));
    acc[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(s), acc[r]);
  }
  if constexpr (Type::kHasMin) {
    const __m512 m = Type::Min(block, 0);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      acc[r] = _mm512_fmadd_ps(m, BroadcastFloat(x[r] + kPackedAuxOffset), acc[r]);
    }
  }
}

// The same for blocks of parts. Each row in turn takes all eight lines, which stay in registers:
// two sums, and what becomes of them, for all rows at once would not.
template <typename Type, int R>
RW_INLINE void PartsStep(const uint8_t* panel, size_t b, const TileRows& rows, __m512 (&acc)[R]) {
  const BlockAddress block = AddressOf<Type>(panel, b);
  const Levels w[8] = {Type::template Line<0>(block.lines), Type::template Line<1>(block.lines),
                       Type::template Line<2>(block.lines), Type::template Line<3>(block.lines),
                       Type::template Line<4>(block.lines), Type::template Line<5>(block.lines),
                       Type::template Line<6>(block.lines), Type::template Line<7>(block.lines)};
  const __m512 d0 = Type::Scale(block, 0);
  const __m512 d1 = Type::Scale(block, 1);
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const uint8_t* x = RowAt<Type>(rows, r, b);
    const uint8_t* aux = x + kPackedAuxOffset;
    __m512i sum0 = Type::kHasMin ? _mm512_setzero_si512() : BroadcastInt(aux);
    __m512i sum1 = Type::kHasMin ? _mm512_setzero_si512() : BroadcastInt(aux + 16);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      sum0 = _mm512_dpbusd_epi32(sum0, w[i], BroadcastInt(x + 16 * i));
      sum1 = _mm512_dpbusd_epi32(sum1, w[i + 4], BroadcastInt(x + 16 * (i + 4)));
    }
    __m512 u = _mm512_mul_ps(d0, _mm512_cvtepi32_ps(sum0));
    u = _mm512_fmadd_ps(d1, _mm512_cvtepi32_ps(sum1), u);
    acc[r] = _mm512_fmadd_ps(u, BroadcastFloat(x + kPackedScaleOffset), acc[r]);
    if constexpr (Type::kHasMin) {
      acc[r] = _mm512_fmadd_ps(Type::Min(block, 0), BroadcastFloat(aux), acc[r]);
      acc[r] = _mm512_fmadd_ps(Type::Min(block, 1), BroadcastFloat(aux + 16), acc[r]);
    }
  }
}

// One feature of weights that are not quantised.
template <typename Type, int R>
RW_INLINE void FeatureStep(const uint8_t* panel, size_t k, const TileRows& rows, __m512 (&acc)[R]) {
  const __m512 w = Type::Load(panel + k * kPanelCols * Type::kBytes);
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const uint8_t* group = rows.group + static_cast<size_t>(r / kRowGroup) * rows.group_bytes;
    acc[r] = _mm512_fmadd_ps(w, BroadcastFloat(group + k * 16 + r % kRowGroup * 4), acc[r]);
  }
}

template <typename Type, int R>
RW_INLINE void Step(const uint8_t* panel, size_t step, const TileRows& rows, __m512 (&acc)[R]) {
  if constexpr (Type::kElements == 1) {
    FeatureStep<Type>(panel, step, rows, acc);
  } else if constexpr (Type::kScales == 1) {
    BlockStep<Type>(panel, step, rows, acc);
  } else {
    PartsStep<Type>(panel, step, rows, acc);
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
    Step<Type>(panel, b, rows, acc);
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    _mm512_mask_storeu_ps(y + r * y_stride, FirstLanes(cols), acc[r]);
  }
}

struct TileFunctions {
  int elements;  // Features of one step.
  TileFunction rows[kMaxRows + 1];
};

template <typename Type>
constexpr TileFunctions TilesOf() {
  return {Type::kElements,
          {nullptr, MultiplyTile<Type, 1>, MultiplyTile<Type, 2>, MultiplyTile<Type, 3>,
           MultiplyTile<Type, 4>, MultiplyTile<Type, 5>, MultiplyTile<Type, 6>,
           MultiplyTile<Type, 7>, MultiplyTile<Type, 8>, MultiplyTile<Type, 9>,
           MultiplyTile<Type, 10>, MultiplyTile<Type, 11>, MultiplyTile<Type, 12>}};
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_MATMUL_AVX512_INL_H_
