// Sixteen f32 lanes in two AVX2 registers. Included by one file of one instruction set only, which
// then includes the kernels written over Vec; internal linkage throughout.
#ifndef ROPEWAY_KERNELS_CPU_VEC_AVX2_INL_H_
#define ROPEWAY_KERNELS_CPU_VEC_AVX2_INL_H_

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/math_constants.h"

#define RW_INLINE static inline __attribute__((always_inline))
#define RW_AVX512 0

namespace ropeway::kernels {
namespace {

struct Vec {
  __m256 lo;
  __m256 hi;
};

// All bits of lanes first .. first + 7 that are < n.
RW_INLINE __m256i LanesBelow(int n, int first) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - first), lane);
}

RW_INLINE Vec Set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
RW_INLINE Vec Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
RW_INLINE Vec Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
RW_INLINE void Store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
// Only the first n lanes touch memory; the others load as +0.
RW_INLINE Vec LoadN(const float* p, int n) {
  return {_mm256_maskload_ps(p, LanesBelow(n, 0)), _mm256_maskload_ps(p + 8, LanesBelow(n, 8))};
}
RW_INLINE void StoreN(float* p, int n, Vec a) {
  _mm256_maskstore_ps(p, LanesBelow(n, 0), a.lo);
  _mm256_maskstore_ps(p + 8, LanesBelow(n, 8), a.hi);
}
RW_INLINE Vec LoadHalf(const void* p) {
  const __m128i* q = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
RW_INLINE Vec LoadInt8(const void* p) {
  const __m128i* q = static_cast<const __m128i*>(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(q))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
              _mm_loadl_epi64(reinterpret_cast<const __m128i*>(static_cast<const char*>(p) + 8))))};
}

RW_INLINE Vec Add(Vec a, Vec b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
RW_INLINE Vec Sub(Vec a, Vec b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
RW_INLINE Vec Mul(Vec a, Vec b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
RW_INLINE Vec Div(Vec a, Vec b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
RW_INLINE Vec Fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// The larger of x and best; best where x is NaN (the instruction's rule for its second operand).
RW_INLINE Vec MaxNum(Vec x, Vec best) {
  return {_mm256_max_ps(x.lo, best.lo), _mm256_max_ps(x.hi, best.hi)};
}
// The smaller of x and y; y where one of them is NaN.
RW_INLINE Vec MinNum(Vec x, Vec y) {
  return {_mm256_min_ps(x.lo, y.lo), _mm256_min_ps(x.hi, y.hi)};
}
// The first n lanes of a; `fill` in the others.
RW_INLINE Vec KeepFirst(Vec a, int n, Vec fill) {
  return {_mm256_blendv_ps(fill.lo, a.lo, _mm256_castsi256_ps(LanesBelow(n, 0))),
          _mm256_blendv_ps(fill.hi, a.hi, _mm256_castsi256_ps(LanesBelow(n, 8)))};
}

// a where x >= least, else (NaN too) +0.
RW_INLINE Vec WhereAtLeast(Vec x, Vec least, Vec a) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.lo, least.lo, _CMP_GE_OQ), a.lo),
          _mm256_and_ps(_mm256_cmp_ps(x.hi, least.hi, _CMP_GE_OQ), a.hi)};
}

// Bit i: lane i of a equals lane i of b.
RW_INLINE uint32_t EqualLanes(Vec a, Vec b) {
  const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ));
  const int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ));
  return static_cast<uint32_t>(lo | (hi << 8));
}

RW_INLINE __m256 LowHalf(Vec a) { return a.lo; }
RW_INLINE __m256 HighHalf(Vec a) { return a.hi; }

// 2^n for n in [-126, 127].
RW_INLINE __m256 PowerOfTwo(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

RW_INLINE __m256 ExpHalf(__m256 x) {
  const __m256 magic = _mm256_set1_ps(RW_ROUND_MAGIC);
  const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(RW_LOG2E), magic);
  const __m256 n = _mm256_sub_ps(t, magic);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-RW_LN2_HI), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-RW_LN2_LO), r);
  __m256 p = _mm256_set1_ps(RW_EXP_C6);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(RW_EXP_C5));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(RW_EXP_C4));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(RW_EXP_C3));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(RW_EXP_C2));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
  const __m256i whole =
      _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(RW_ROUND_MAGIC_BITS));
  const __m256i first = _mm256_srai_epi32(whole, 1);
  p = _mm256_mul_ps(p, PowerOfTwo(first));
  p = _mm256_mul_ps(p, PowerOfTwo(_mm256_sub_epi32(whole, first)));
  const __m256 over = _mm256_cmp_ps(x, _mm256_set1_ps(RW_EXP_HI), _CMP_GT_OQ);
  const __m256 under = _mm256_cmp_ps(x, _mm256_set1_ps(RW_EXP_LO), _CMP_LT_OQ);
  p = _mm256_blendv_ps(p, _mm256_castsi256_ps(_mm256_set1_epi32(RW_INF_BITS)), over);
  return _mm256_andnot_ps(under, p);
}

// e^x: Exp of reference.cc, lane by lane.
RW_INLINE Vec Exp(Vec x) { return {ExpHalf(x.lo), ExpHalf(x.hi)}; }

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_VEC_AVX2_INL_H_
