// The limits of AVX-512 with VNNI. Includes no C++ library header (CMakeLists.txt says why).
#include <immintrin.h>
#include <stdint.h>

#include "bench/kernels/peaks.h"

namespace ropeway::bench {
namespace {

// The compiler takes the register for changed: it neither computes ahead nor shares what uses it.
#define RW_CHANGED(x) asm volatile("" : "+v"(x))

constexpr int kChains = 16;

// Modulo 2^64. (The compiler's reduce_add adds signed numbers, for which overflow is undefined.)
static uint64_t SumLanes(__m512i a) {
  uint64_t lanes[8];
  _mm512_storeu_si512(lanes, a);
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

static uint64_t Int8Dot(int64_t rounds) {
  __m512i a = _mm512_set1_epi8(3);
  __m512i b = _mm512_set1_epi8(-5);
  __m512i sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = _mm512_setzero_si512();
  for (int64_t i = 0; i < rounds; ++i) {
    RW_CHANGED(a);
    RW_CHANGED(b);
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_dpbusd_epi32(sum[c], a, b);
  }
  __m512i all = sum[0];
  for (int c = 1; c < kChains; ++c) all = _mm512_add_epi32(all, sum[c]);
  return SumLanes(all);
}

static uint64_t F32Fma(int64_t rounds) {
  __m512 a = _mm512_set1_ps(1e-3F);
  __m512 b = _mm512_set1_ps(1e-3F);
  __m512 sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = _mm512_setzero_ps();
  for (int64_t i = 0; i < rounds; ++i) {
    RW_CHANGED(a);
    RW_CHANGED(b);
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_ps(a, b, sum[c]);
  }
  __m512 all = sum[0];
  for (int c = 1; c < kChains; ++c) all = _mm512_add_ps(all, sum[c]);
  return SumLanes(_mm512_castps_si512(all));
}

static uint64_t Sweep(const std::byte* memory, size_t bytes) {
  __m512i sum[8];
  for (int c = 0; c < 8; ++c) sum[c] = _mm512_setzero_si512();
  const __m512i* end = reinterpret_cast<const __m512i*>(memory + bytes);
  for (const __m512i* at = reinterpret_cast<const __m512i*>(memory); at != end; at += 8) {
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) sum[c] = _mm512_add_epi64(sum[c], _mm512_load_si512(at + c));
  }
  for (int c = 1; c < 8; ++c) sum[0] = _mm512_add_epi64(sum[0], sum[c]);
  return SumLanes(sum[0]);
}

}  // namespace

const PeakLoops kAvx512VnniPeaks = {
    .name = "avx512vnni",
    .int8_dot = Int8Dot,
    .int8_ops = 2.0 * 64 * kChains,
    .f32_fma = F32Fma,
    .f32_ops = 2.0 * 16 * kChains,
    .sweep = Sweep,
};

}  // namespace ropeway::bench
