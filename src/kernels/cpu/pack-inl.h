// Packing activation rows (layout.h) with AVX2 instructions, four rows at a time;
// reference_matmul.cc defines it. Included by one file per instruction set.
#ifndef ROPEWAY_KERNELS_CPU_PACK_INL_H_
#define ROPEWAY_KERNELS_CPU_PACK_INL_H_

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace ropeway::kernels {
namespace {

// How the aux of a packed row is made from the sums of its integers (layout.h): the scale times the
// sum for kScaled, else -(sum << shift); for each part, or for the whole block.
enum { kScaled = -1 };
struct AuxRule {
  int shift;
  bool of_parts;
};

RW_INLINE AuxRule AuxRuleOf(RowPacking packing) {
  switch (packing) {
    case RowPacking::kFloats:
      break;
    case RowPacking::kScaledSum:
      return {kScaled, false};
    case RowPacking::kOffset8:
      return {3, false};
    case RowPacking::kOffset16:
      return {4, false};
    case RowPacking::kOffset128:
      return {7, false};
    case RowPacking::kPartsScaledSum:
      return {kScaled, true};
    case RowPacking::kPartsOffset4:
      return {2, true};
    case RowPacking::kPartsOffset32:
      return {5, true};
  }
  __builtin_trap();
}

// sum16: sums of two of a row's integers each, in both halves; scales: of the four rows.
RW_INLINE void StoreAux(int shift, __m256i sum16, __m128 scales, uint8_t* to) {
  const __m256i sum32 = _mm256_madd_epi16(sum16, _mm256_set1_epi16(1));
  const __m128i sum =
      _mm_add_epi32(_mm256_castsi256_si128(sum32), _mm256_extracti128_si256(sum32, 1));
  __m128i aux;
  if (shift == kScaled) {
    aux = _mm_castps_si128(_mm_mul_ps(scales, _mm_cvtepi32_ps(sum)));
  } else {
    aux = _mm_sub_epi32(_mm_setzero_si128(), _mm_slli_epi32(sum, shift));
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), aux);
}

// The largest magnitude's bits of each row's 32 elements, in four lanes. As unsigned or signed
// integers alike, bits of magnitudes are ordered as their values, NaN above infinity.
RW_INLINE __m128i MaxMagnitudes(const __m256 (&x)[4][4]) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i row[4];
  for (int r = 0; r < 4; ++r) {
    __m256i max = _mm256_and_si256(_mm256_castps_si256(x[r][0]), magnitude);
    for (int i = 1; i < 4; ++i) {
      max = _mm256_max_epi32(max, _mm256_and_si256(_mm256_castps_si256(x[r][i]), magnitude));
    }
    row[r] = max;
  }
  const __m256i rows01 = _mm256_max_epi32(_mm256_unpacklo_epi32(row[0], row[1]),
                                          _mm256_unpackhi_epi32(row[0], row[1]));
  const __m256i rows23 = _mm256_max_epi32(_mm256_unpacklo_epi32(row[2], row[3]),
                                          _mm256_unpackhi_epi32(row[2], row[3]));
  const __m256i all = _mm256_max_epi32(_mm256_unpacklo_epi64(rows01, rows23),
                                       _mm256_unpackhi_epi64(rows01, rows23));
  return _mm_max_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

// Scale d, factor 127 / max and, as all-ones lanes, whether the block counts (not zero, not NaN).
struct Scales {
  __m128 d;
  __m128 inverse;
  __m128 counts;
};

RW_INLINE Scales ScalesOf(__m128i max_bits) {
  const __m128 max = _mm_castsi128_ps(max_bits);
  const __m128 c127 = _mm_set1_ps(127.0F);
  const __m128i broken = _mm_cmpgt_epi32(max_bits, _mm_set1_epi32(RW_INF_BITS - 1));
  const __m128i large = _mm_cmpgt_epi32(max_bits, _mm_set1_epi32(RW_QUANT_MIN_BITS - 1));
  const __m128 counts = _mm_castsi128_ps(_mm_andnot_si128(broken, large));
  const __m128 nan = _mm_castsi128_ps(_mm_and_si128(broken, _mm_set1_epi32(RW_NAN_BITS)));
  return {_mm_or_ps(_mm_and_ps(_mm_div_ps(max, c127), counts), nan),
          _mm_and_ps(_mm_div_ps(c127, max), counts), counts};
}

RW_INLINE __m256 BroadcastLane(__m128 a, int lane) {
  return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(a), _mm256_set1_epi32(lane));
}

// 32 elements of one row to int8, in 4-byte groups 0 2 4 6 | 1 3 5 7.
RW_INLINE __m256i QuantiseRow(const __m256 (&x)[4], __m256 inverse, __m256 counts) {
  __m256i q[4];
  for (int i = 0; i < 4; ++i) {
    q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_and_ps(x[i], counts), inverse));
  }
  return _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
}

// The first N rows of x to one packed block; the other rows become zero.
template <int N>
RW_INLINE void PackBlock(const AuxRule& rule, const __m256 (&x)[4][4], uint8_t* to) {
  const Scales scales = ScalesOf(MaxMagnitudes(x));
  __m256i q[4];
  for (int r = 0; r < 4; ++r) {
    q[r] =
        r < N ? QuantiseRow(x[r], BroadcastLane(scales.inverse, r), BroadcastLane(scales.counts, r))
              : _mm256_setzero_si256();
  }
  // Transposed, the halves of one register are lines 2i and 2i + 1 of the packed block.
  const __m256i lo01 = _mm256_unpacklo_epi32(q[0], q[1]);
  const __m256i lo23 = _mm256_unpacklo_epi32(q[2], q[3]);
  const __m256i hi01 = _mm256_unpackhi_epi32(q[0], q[1]);
  const __m256i hi23 = _mm256_unpackhi_epi32(q[2], q[3]);
  const __m256i lines[4] = {_mm256_unpacklo_epi64(lo01, lo23), _mm256_unpackhi_epi64(lo01, lo23),
                            _mm256_unpacklo_epi64(hi01, hi23), _mm256_unpackhi_epi64(hi01, hi23)};
  __m256i sum16[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};  // Of both parts.
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * i), lines[i]);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), lines[i]);
    sum16[i / 2] = _mm256_add_epi16(sum16[i / 2], pairs);
  }
  _mm_storeu_ps(reinterpret_cast<float*>(to + kPackedScaleOffset), scales.d);
  if (rule.of_parts) {
    StoreAux(rule.shift, sum16[0], scales.d, to + kPackedAuxOffset);
    StoreAux(rule.shift, sum16[1], scales.d, to + kPackedAuxOffset + 16);
  } else {
    const __m256i both = _mm256_add_epi16(sum16[0], sum16[1]);
    StoreAux(rule.shift, both, scales.d, to + kPackedAuxOffset);
  }
}

template <int N>
static void PackGroup(const AuxRule& rule, const float* x, int64_t x_stride, int k,
                      uint8_t* group) {
  const size_t block_bytes = rule.of_parts ? kPackedPartsBytes : kPackedBlockBytes;
  for (int b = 0; b < k / static_cast<int>(kQuantBlock); ++b) {
    __m256 block[4][4];
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < 4; ++i) {
        block[r][i] = r < N ? _mm256_loadu_ps(x + r * x_stride + 8 * i) : _mm256_setzero_ps();
      }
    }
    PackBlock<N>(rule, block, group + static_cast<size_t>(b) * block_bytes);
    x += kQuantBlock;
  }
}

static void PackFloats(const float* x, int64_t x_stride, int rows, int k, float* group) {
  for (int i = 0; i < k; ++i) {
    for (int r = 0; r < kRowGroup; ++r) {
      group[i * kRowGroup + r] = r < rows ? x[r * x_stride + i] : 0.0F;
    }
  }
}

static void PackRows(WeightType type, const float* x, int64_t x_stride, int row_begin, int row_end,
                     int k, std::byte* packed) {
  const RowPacking packing = RowPackingOf(type);
  const size_t group_bytes = PackedRowsBytes(type, kRowGroup, k);
  for (int first = row_begin; first < row_end; first += kRowGroup) {
    std::byte* group = packed + static_cast<size_t>(first / kRowGroup) * group_bytes;
    const int count = row_end - first < kRowGroup ? row_end - first : kRowGroup;
    const float* from = x + first * x_stride;
    if (packing == RowPacking::kFloats) {
      PackFloats(from, x_stride, count, k, reinterpret_cast<float*>(group));
      continue;
    }
    const AuxRule rule = AuxRuleOf(packing);
    uint8_t* to = reinterpret_cast<uint8_t*>(group);
    switch (count) {
      case 1:
        PackGroup<1>(rule, from, x_stride, k, to);
        break;
      case 2:
        PackGroup<2>(rule, from, x_stride, k, to);
        break;
      case 3:
        PackGroup<3>(rule, from, x_stride, k, to);
        break;
      default:
        PackGroup<4>(rule, from, x_stride, k, to);
    }
  }
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_PACK_INL_H_
