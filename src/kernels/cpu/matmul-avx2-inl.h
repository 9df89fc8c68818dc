// Tiles of matrix products with AVX2: a panel's 16 output features in two halves of 8, up to 4
// rows; reference_matmul.cc defines them. Included by one file of one instruction set, after
// vec-avx2-inl.h and before matmul-inl.h.
#ifndef ROPEWAY_KERNELS_CPU_MATMUL_AVX2_INL_H_
#define ROPEWAY_KERNELS_CPU_MATMUL_AVX2_INL_H_

#include "kernels/kernels.h"
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

// What matmul-types-inl.h needs, for 8 columns.
using Levels = __m256i;
using Columns = __m256;

RW_INLINE Levels LoadLevels(const uint8_t* at) { return LoadInts(at); }

// The bits of `mask` of each byte.
RW_INLINE Levels KeepBits(Levels a, int mask) {
  return _mm256_and_si256(a, _mm256_set1_epi8(static_cast<char>(mask)));
}

// a, and the bits of `mask` of each byte of b.
RW_INLINE Levels InsertBits(Levels a, Levels b, int mask) {
  return _mm256_or_si256(a, KeepBits(b, mask));
}

// Pairs of bytes, kBits down, or up if that is negative.
template <int kBits>
RW_INLINE Levels ShiftDown(Levels a) {
  if constexpr (kBits > 0) {
    return _mm256_srli_epi16(a, kBits);
  } else if constexpr (kBits < 0) {
    return _mm256_slli_epi16(a, -kBits);
  } else {
    return a;
  }
}

RW_INLINE Levels LookUp(const uint8_t (&values)[16], Levels index) {
  const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(values));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
}

RW_INLINE Columns LoadColumns(const uint8_t* at) {
  return _mm256_load_ps(reinterpret_cast<const float*>(at));
}

RW_INLINE Columns HalfColumns(const uint8_t* at) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
}

RW_INLINE Columns BFloatColumns(const uint8_t* at) {
  const __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(at));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

RW_INLINE __m128i Load8Bytes(const uint8_t* at) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
}

RW_INLINE Columns CodeColumns(const uint8_t* at) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(Load8Bytes(at)));
}

RW_INLINE Columns LowCodeColumns(const uint8_t* at) {
  const __m256i codes = _mm256_cvtepu8_epi32(Load8Bytes(at));
  return _mm256_cvtepi32_ps(_mm256_and_si256(codes, _mm256_set1_epi32(15)));
}

RW_INLINE Columns HighCodeColumns(const uint8_t* at) {
  return _mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_cvtepu8_epi32(Load8Bytes(at)), 4));
}

// 2^(e - 128): denormal for e < 2.
RW_INLINE Columns ExponentColumns(const uint8_t* at) {
  const __m256i e = _mm256_cvtepu8_epi32(Load8Bytes(at));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i denormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
  const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, denormal, small));
}

RW_INLINE Columns MulColumns(Columns a, Columns b) { return _mm256_mul_ps(a, b); }

}  // namespace
}  // namespace ropeway::kernels

#include "kernels/cpu/matmul-types-inl.h"

namespace ropeway::kernels {
namespace {

// The same columns' address, `halves` times 8 columns further.
RW_INLINE BlockAddress FromColumn(const BlockAddress& at, int halves) {
  return {at.scales + 16 * halves, at.codes + 8 * halves, at.lines + 32 * halves};
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

// sum[r][h] += the products of line kJ, in 16 bits.
template <typename Type, int kJ, int R, int H>
RW_INLINE void AddLine(const uint8_t* lines, const uint8_t* x, __m256i (&sum)[R][H]) {
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const Levels w = Type::template Line<kJ>(lines + 32 * h);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum[r][h] = AddPairs(sum[r][h], w, x + 16 * kJ + 4 * r);
  }
}

// Dot products of levels up to 32: two sums in 16 bits, of 16 features each, at most
// 2 * 4 * 32 * 127 = 32512.
template <typename Type, int R, int H>
RW_INLINE void Dot5Bits(const uint8_t* lines, const uint8_t* x, __m256i (&sum)[R][H]) {
  __m256i high_sum[R][H];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) sum[r][h] = high_sum[r][h] = _mm256_setzero_si256();
  }
  AddLine<Type, 0>(lines, x, sum);
  AddLine<Type, 4>(lines, x, high_sum);
  AddLine<Type, 1>(lines, x, sum);
  AddLine<Type, 5>(lines, x, high_sum);
  AddLine<Type, 2>(lines, x, sum);
  AddLine<Type, 6>(lines, x, high_sum);
  AddLine<Type, 3>(lines, x, sum);
  AddLine<Type, 7>(lines, x, high_sum);
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      sum[r][h] = _mm256_add_epi32(_mm256_madd_epi16(sum[r][h], ones),
                                   _mm256_madd_epi16(high_sum[r][h], ones));
    }
  }
}

// Adds the products of line kJ, of 8 bits, by the nibbles of its levels.
template <typename Type, int kJ, int R, int H>
RW_INLINE void AddWideLine(const uint8_t* lines, const uint8_t* x, __m256i (&low_sum)[R][H],
                           __m256i (&high_sum)[R][H]) {
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const Levels both = Type::template Line<kJ>(lines + 32 * h);
    const Levels low = KeepBits(both, 15);
    const Levels high = KeepBits(ShiftDown<4>(both), 15);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      low_sum[r][h] = AddPairs(low_sum[r][h], low, x + 16 * kJ + 4 * r);
      high_sum[r][h] = AddPairs(high_sum[r][h], high, x + 16 * kJ + 4 * r);
    }
  }
}

// Dot products of levels of 8 bits: 16 * (high nibbles) + (low nibbles), each like weights of 4
// bits.
template <typename Type, int R, int H>
RW_INLINE void Dot8Bits(const uint8_t* lines, const uint8_t* x, __m256i (&sum)[R][H]) {
  __m256i high_sum[R][H];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) sum[r][h] = high_sum[r][h] = _mm256_setzero_si256();
  }
  AddWideLine<Type, 0>(lines, x, sum, high_sum);
  AddWideLine<Type, 1>(lines, x, sum, high_sum);
  AddWideLine<Type, 2>(lines, x, sum, high_sum);
  AddWideLine<Type, 3>(lines, x, sum, high_sum);
  AddWideLine<Type, 4>(lines, x, sum, high_sum);
  AddWideLine<Type, 5>(lines, x, sum, high_sum);
  AddWideLine<Type, 6>(lines, x, sum, high_sum);
  AddWideLine<Type, 7>(lines, x, sum, high_sum);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      sum[r][h] = _mm256_add_epi32(_mm256_madd_epi16(sum[r][h], _mm256_set1_epi16(1)),
                                   _mm256_madd_epi16(high_sum[r][h], _mm256_set1_epi16(16)));
    }
  }
}

template <typename Type, int R, int H>
RW_INLINE void Dot(const uint8_t* lines, const uint8_t* x, __m256i (&sum)[R][H]) {
  if constexpr (Type::kMaxLevel <= 15) {
    Dot4Bits(lines, x, sum);
  } else if constexpr (Type::kMaxLevel <= 32) {
    Dot5Bits<Type>(lines, x, sum);
  } else {
    Dot8Bits<Type>(lines, x, sum);
  }
}

// One step of R rows (of one group) for H halves from `half` on: adds block b, of one scale, to
// acc[r][h] as docs/numerics.md defines it.
template <typename Type, int R, int H>
RW_INLINE void BlockStep(const uint8_t* panel, size_t b, int half, const uint8_t* group,
                         __m256 (&acc)[R][H]) {
  const BlockAddress block = FromColumn(AddressOf<Type>(panel, b), half);
  const uint8_t* x = group + b * Type::kPackedBytes;
  __m256i sum[R][H];
  Dot<Type>(block.lines, x, sum);
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const __m256 d = Type::Scale(FromColumn(block, h), 0);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      __m256i s = sum[r][h];
      if (!Type::kHasMin) s = _mm256_add_epi32(s, BroadcastInt(x + kPackedAuxOffset + 4 * r));
      const __m256 scale = _mm256_mul_ps(d, BroadcastFloat(x + kPackedScaleOffset + 4 * r));
      acc[r][h] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(s), acc[r][h]);
    }
    if constexpr (Type::kHasMin) {
      const __m256 m = Type::Min(FromColumn(block, h), 0);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        acc[r][h] = _mm256_fmadd_ps(m, BroadcastFloat(x + kPackedAuxOffset + 4 * r), acc[r][h]);
      }
    }
  }
}

// The integer sums of one row and four lines; levels of more than 5 bits fit only two by two in
// the 16 bits of a sum: 2 * 2 * 63 * 127 = 32004.
template <typename Type>
RW_INLINE __m256i DotPart(const Levels (&w)[4], const uint8_t* x) {
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i first = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], BroadcastInt(x)),
                                         _mm256_maddubs_epi16(w[1], BroadcastInt(x + 16)));
  const __m256i last = _mm256_add_epi16(_mm256_maddubs_epi16(w[2], BroadcastInt(x + 32)),
                                        _mm256_maddubs_epi16(w[3], BroadcastInt(x + 48)));
  if constexpr (Type::kMaxLevel <= 32) {
    return _mm256_madd_epi16(_mm256_add_epi16(first, last), ones);
  } else {
    return _mm256_add_epi32(_mm256_madd_epi16(first, ones), _mm256_madd_epi16(last, ones));
  }
}

// u[r][h] = the scaled sums of part 0; part 1 adds its own. Each row in turn takes the part's four
// lines, which stay in registers.
template <typename Type, int kPart, int R, int H>
RW_INLINE void AddPart(const BlockAddress& block, const uint8_t* x, __m256 (&u)[R][H]) {
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const BlockAddress at = FromColumn(block, h);
    const Levels w[4] = {
        Type::template Line<4 * kPart>(at.lines), Type::template Line<4 * kPart + 1>(at.lines),
        Type::template Line<4 * kPart + 2>(at.lines), Type::template Line<4 * kPart + 3>(at.lines)};
    const __m256 d = Type::Scale(at, kPart);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      __m256i s = DotPart<Type>(w, x + 64 * kPart + 4 * r);
      if constexpr (!Type::kHasMin) {
        s = _mm256_add_epi32(s, BroadcastInt(x + kPackedAuxOffset + 16 * kPart + 4 * r));
      }
      if constexpr (kPart == 0) {
        u[r][h] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(s));
      } else {
        u[r][h] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(s), u[r][h]);
      }
    }
  }
}

// As BlockStep, for blocks of parts.
template <typename Type, int R, int H>
RW_INLINE void PartsStep(const uint8_t* panel, size_t b, int half, const uint8_t* group,
                         __m256 (&acc)[R][H]) {
  const BlockAddress block = FromColumn(AddressOf<Type>(panel, b), half);
  const uint8_t* x = group + b * Type::kPackedBytes;
  const uint8_t* aux = x + kPackedAuxOffset;
  __m256 u[R][H];
  AddPart<Type, 0>(block, x, u);
  AddPart<Type, 1>(block, x, u);
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m256 dx = BroadcastFloat(x + kPackedScaleOffset + 4 * r);
      acc[r][h] = _mm256_fmadd_ps(u[r][h], dx, acc[r][h]);
      if constexpr (Type::kHasMin) {
        const BlockAddress at = FromColumn(block, h);
        acc[r][h] = _mm256_fmadd_ps(Type::Min(at, 0), BroadcastFloat(aux + 4 * r), acc[r][h]);
        acc[r][h] = _mm256_fmadd_ps(Type::Min(at, 1), BroadcastFloat(aux + 16 + 4 * r), acc[r][h]);
      }
    }
  }
}

// One feature of weights that are not quantised.
template <typename Type, int R, int H>
RW_INLINE void FeatureStep(const uint8_t* panel, size_t k, int half, const uint8_t* group,
                           __m256 (&acc)[R][H]) {
  const uint8_t* at = panel + k * kPanelCols * Type::kBytes;
  const uint8_t* x = group + k * kRowGroup * sizeof(float);
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const __m256 w = Type::Load(at + 8 * Type::kBytes * static_cast<size_t>(half + h));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      acc[r][h] = _mm256_fmadd_ps(w, BroadcastFloat(x + 4 * r), acc[r][h]);
  }
}

template <typename Type, int R, int H>
RW_INLINE void Step(const uint8_t* panel, size_t step, int half, const uint8_t* group,
                    __m256 (&acc)[R][H]) {
  if constexpr (Type::kElements == 1) {
    FeatureStep<Type>(panel, step, half, group, acc);
  } else if constexpr (Type::kScales == 1) {
    BlockStep<Type>(panel, step, half, group, acc);
  } else {
    PartsStep<Type>(panel, step, half, group, acc);
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
    Step<Type>(panel, b, half, group, acc);
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

// Up to so many rows compute both halves of a panel at once, which then share the broadcasts of x;
// more rows do not fit in the registers.
template <typename Type>
constexpr int BothHalvesRows() {
  if constexpr (Type::kElements == 1) {
    return kMaxRows;
  } else {
    return Type::kScales == 1 && Type::kMaxLevel <= 15 ? 4 : 2;
  }
}

template <typename Type, int R>
static void MultiplyTile(const uint8_t* panel, int k, Fetch fetch, const TileRows& rows, int cols,
                         float* y, int64_t y_stride) {
  if constexpr (R <= BothHalvesRows<Type>()) {
    MultiplyHalves<Type, R, 2>(panel, k, &fetch, rows.group, 0, cols, y, y_stride);
  } else {
    MultiplyHalves<Type, R, 1>(panel, k, &fetch, rows.group, 0, cols, y, y_stride);
    fetch = {rows.group, 0};  // The panel is in the cache.
    MultiplyHalves<Type, R, 1>(panel, k, &fetch, rows.group, 1, cols, y, y_stride);
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
           MultiplyTile<Type, 4>}};
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_MATMUL_AVX2_INL_H_
