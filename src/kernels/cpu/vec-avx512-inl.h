// Sixteen f32 lanes in one AVX-512 register. Included by one file of one instruction set only,
// which then includes the kernels written over Vec; internal linkage throughout.
#ifndef ROPEWAY_KERNELS_CPU_VEC_AVX512_INL_H_
#define ROPEWAY_KERNELS_CPU_VEC_AVX512_INL_H_

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/math_constants.h"

#define RW_INLINE static inline __attribute__((always_inline))
#define RW_AVX512 1

namespace ropeway::kernels {
namespace {

struct Vec {
  __m512 v;
};

// Lanes 0 .. n - 1; all for n >= 16, none for n <= 0.
RW_INLINE __mmask16 FirstLanes(int n) {
  return n >= 16 ? 0xFFFF : (n <= 0 ? 0 : static_cast<__mmask16>((1U << n) - 1U));
}

RW_INLINE Vec Set1(float x) { return {_mm512_set1_ps(x)}; }
RW_INLINE Vec Zero() { return {_mm512_setzero_ps()}; }
RW_INLINE Vec Load(const float* p) { return {_mm512_loadu_ps(p)}; }
RW_INLINE void Store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
// Only the first n lanes touch memory; the others load as +0.
RW_INLINE Vec LoadN(const float* p, int n) { return {_mm512_maskz_loadu_ps(FirstLanes(n), p)}; }
RW_INLINE void StoreN(float* p, int n, Vec a) { _mm512_mask_storeu_ps(p, FirstLanes(n), a.v); }
RW_INLINE Vec LoadHalf(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
RW_INLINE Vec LoadInt8(const void* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}

RW_INLINE Vec Add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
RW_INLINE Vec Sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
RW_INLINE Vec Mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
RW_INLINE Vec Div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
RW_INLINE Vec Fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// The larger of x and best; best where x is NaN (the instruction's rule for its second operand).
RW_INLINE Vec MaxNum(Vec x, Vec best) { return {_mm512_max_ps(x.v, best.v)}; }
// The smaller of x and y; y where one of them is NaN.
RW_INLINE Vec MinNum(Vec x, Vec y) { return {_mm512_min_ps(x.v, y.v)}; }
// The first n lanes of a; `fill` in the others.
RW_INLINE Vec KeepFirst(Vec a, int n, Vec fill) {
  return {_mm512_mask_mov_ps(fill.v, FirstLanes(n), a.v)};
}

// a where x >= least, else (NaN too) +0.
RW_INLINE Vec WhereAtLeast(Vec x, Vec least, Vec a) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, least.v, _CMP_GE_OQ), a.v)};
}

// Bit i: lane i of a equals lane i of b.
RW_INLINE uint32_t EqualLanes(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }

// Lanes i + 8 onto i.
RW_INLINE __m256 LowHalf(Vec a) { return _mm512_castps512_ps256(a.v); }
RW_INLINE __m256 HighHalf(Vec a) { return _mm512_extractf32x8_ps(a.v, 1); }

// e^x: Exp of reference.cc, lane by lane. One scalef rounds as its two multiplications do.
RW_INLINE Vec Exp(Vec x) {
  const __m512 magic = _mm512_set1_ps(RW_ROUND_MAGIC);
  const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x.v, _mm512_set1_ps(RW_LOG2E), magic), magic);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-RW_LN2_HI), x.v);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-RW_LN2_LO), r);
  __m512 p = _mm512_set1_ps(RW_EXP_C6);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RW_EXP_C5));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RW_EXP_C4));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RW_EXP_C3));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RW_EXP_C2));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  p = _mm512_scalef_ps(p, n);
  const __mmask16 over = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(RW_EXP_HI), _CMP_GT_OQ);
  const __mmask16 under = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(RW_EXP_LO), _CMP_LT_OQ);
  p = _mm512_mask_mov_ps(p, over, _mm512_castsi512_ps(_mm512_set1_epi32(RW_INF_BITS)));
  return {_mm512_mask_mov_ps(p, under, _mm512_setzero_ps())};
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_VEC_AVX512_INL_H_
