// The limits of AVX2 with FMA. Includes no C++ library header (CMakeLists.txt says why).
#include <immintrin.h>
#include <stdint.h>

#include "bench/kernels/peaks.h"

namespace ropeway::bench {
namespace {

// The compiler takes the register for changed: it neither computes ahead nor shares what uses it.
#define RW_CHANGED(x) asm volatile("" : "+x"(x))

constexpr int kIntChains = 3;
constexpr int kStepsPerRound = 8;
constexpr int kFloatChains = 12;

static uint64_t SumLanes(__m256i a) {
  const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  return static_cast<uint64_t>(_mm_extract_epi64(half, 0)) +
         static_cast<uint64_t>(_mm_extract_epi64(half, 1));
}

static uint64_t Int8Dot(int64_t rounds) {
  __m256i a = _mm256_set1_epi8(3);
  __m256i b = _mm256_set1_epi8(-5);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum[kIntChains];
  for (int c = 0; c < kIntChains; ++c) sum[c] = _mm256_setzero_si256();
  for (int64_t i = 0; i < rounds; ++i) {
    __m256i pairs[kIntChains];
#pragma GCC unroll 3
    for (int c = 0; c < kIntChains; ++c) {
      RW_CHANGED(a);
      pairs[c] = _mm256_maddubs_epi16(a, b);
    }
#pragma GCC unroll 8
    for (int step = 1; step < kStepsPerRound; ++step) {
#pragma GCC unroll 3
      for (int c = 0; c < kIntChains; ++c) {
        RW_CHANGED(b);
        pairs[c] = _mm256_add_epi16(pairs[c], _mm256_maddubs_epi16(a, b));
      }
    }
#pragma GCC unroll 3
    for (int c = 0; c < kIntChains; ++c) {
      sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs[c], ones));
    }
  }
  __m256i all = sum[0];
  for (int c = 1; c < kIntChains; ++c) all = _mm256_add_epi32(all, sum[c]);
  return SumLanes(all);
}

static uint64_t F32Fma(int64_t rounds) {
  __m256 a = _mm256_set1_ps(1e-3F);
  __m256 b = _mm256_set1_ps(1e-3F);
  __m256 sum[kFloatChains];
  for (int c = 0; c < kFloatChains; ++c) sum[c] = _mm256_setzero_ps();
  for (int64_t i = 0; i < rounds; ++i) {
    RW_CHANGED(a);
    RW_CHANGED(b);
#pragma GCC unroll 12
    for (int c = 0; c < kFloatChains; ++c) sum[c] = _mm256_fmadd_ps(a, b, sum[c]);
  }
  __m256 all = sum[0];
  for (int c = 1; c < kFloatChains; ++c) all = _mm256_add_ps(all, sum[c]);
  return SumLanes(_mm256_castps_si256(all));
}

static uint64_t Sweep(const std::byte* memory, size_t bytes) {
  __m256i sum[8];
  for (int c = 0; c < 8; ++c) sum[c] = _mm256_setzero_si256();
  const __m256i* end = reinterpret_cast<const __m256i*>(memory + bytes);
  for (const __m256i* at = reinterpret_cast<const __m256i*>(memory); at != end; at += 8) {
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) sum[c] = _mm256_add_epi64(sum[c], _mm256_load_si256(at + c));
  }
  for (int c = 1; c < 8; ++c) sum[0] = _mm256_add_epi64(sum[0], sum[c]);
  return SumLanes(sum[0]);
}

}  // namespace

const PeakLoops kAvx2Peaks = {
    .name = "avx2",
    .int8_dot = Int8Dot,
    .int8_ops = 2.0 * 32 * kIntChains * kStepsPerRound,
    .f32_fma = F32Fma,
    .f32_ops = 2.0 * 8 * kFloatChains,
    .sweep = Sweep,
};

}  // namespace ropeway::bench
