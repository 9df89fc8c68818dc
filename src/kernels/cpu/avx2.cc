// The table for AVX2 with FMA and F16C. Includes no C++ library header (CMakeLists.txt says why).

// Each header uses what the ones before it define.
// clang-format off
#include "kernels/cpu/vec-avx2-inl.h"
#include "kernels/cpu/elementwise-inl.h"
#include "kernels/cpu/attention-inl.h"
#include "kernels/cpu/pack-inl.h"
// clang-format on

namespace ropeway {
namespace {

constexpr int kMaxRows = 4;  // Rows of one tile: what sixteen registers hold.
constexpr size_t kPrefetchAhead = 2560;

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

// The kernels below are policies of MultiplyTile. Step<R, H> consumes one block of input features
// for R rows and the H halves (8 columns each) of a panel from `half` on: acc[r][h] gains what
// docs/numerics.md says. x: the rows' first packed group, at the same block.

// Dot products of 4-bit weights, as sums of at most 2 * 8 * 15 * 127 = 30480 in 16 bits.
template <int R, int H>
RW_INLINE void DotQ4(const uint8_t* lines, int half, const uint8_t* x, __m256i (&sum)[R][H]) {
  const __m256i low_bits = _mm256_set1_epi8(15);
  __m256i sum16[R][H];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const __m256i both = LoadInts(lines + 64 * j + 32 * (half + h));
      const __m256i low = _mm256_and_si256(both, low_bits);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), low_bits);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const __m256i product = _mm256_maddubs_epi16(low, BroadcastInt(x + 16 * j + 4 * r));
        sum16[r][h] = j == 0 ? product : _mm256_add_epi16(sum16[r][h], product);
      }
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const __m256i product = _mm256_maddubs_epi16(high, BroadcastInt(x + 16 * (j + 4) + 4 * r));
        sum16[r][h] = _mm256_add_epi16(sum16[r][h], product);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int h = 0; h < H; ++h) {
      sum[r][h] = _mm256_madd_epi16(sum16[r][h], _mm256_set1_epi16(1));
    }
  }
}

// acc = fma(d * dx, sum, acc).
template <int R, int H>
RW_INLINE void Accumulate(const uint8_t* scales, int half, const uint8_t* x,
                          const __m256i (&sum)[R][H], __m256 (&acc)[R][H]) {
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const __m256 d = Scale8(scales + 16 * (half + h));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m256 scale = _mm256_mul_ps(d, BroadcastFloat(x + kPackedScaleOffset + 4 * r));
      acc[r][h] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sum[r][h]), acc[r][h]);
    }
  }
}

struct Q41 {
  static constexpr int kElements = 32;
  static constexpr size_t kGroupStep = kPackedBlockBytes;
  template <int R, int H>
  static inline __attribute__((always_inline)) void Step(const uint8_t* panel, size_t b,
                                                         size_t ahead, int half, const uint8_t* x,
                                                         __m256 (&acc)[R][H]) {
    const uint8_t* block = panel + b * kQ41BlockBytes;
    for (int i = 0; i < 5; ++i) Prefetch(block + ahead + 64 * i);
    __m256i sum[R][H];
    DotQ4<R, H>(block + kQ41DataOffset, half, x, sum);
    Accumulate<R, H>(block, half, x, sum, acc);
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const __m256 m = Scale8(block + 32 + 16 * (half + h));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        acc[r][h] = _mm256_fmadd_ps(m, BroadcastFloat(x + kPackedAuxOffset + 4 * r), acc[r][h]);
      }
    }
  }
};

struct Q40 {
  static constexpr int kElements = 32;
  static constexpr size_t kGroupStep = kPackedBlockBytes;
  template <int R, int H>
  static inline __attribute__((always_inline)) void Step(const uint8_t* panel, size_t b,
                                                         size_t ahead, int half, const uint8_t* x,
                                                         __m256 (&acc)[R][H]) {
    const uint8_t* pair = panel + b / 2 * kQ40PairBytes;
    const uint8_t* lines = pair + 64 + b % 2 * 256;
    for (int i = 0; i < 5; ++i) Prefetch(lines + ahead + 64 * i);
    __m256i sum[R][H];
    DotQ4<R, H>(lines, half, x, sum);
    for (int r = 0; r < R; ++r) {
      const __m256i offset = BroadcastInt(x + kPackedAuxOffset + 4 * r);
      for (int h = 0; h < H; ++h) sum[r][h] = _mm256_add_epi32(sum[r][h], offset);
    }
    Accumulate<R, H>(pair + b % 2 * 32, half, x, sum, acc);
  }
};

struct Q80 {
  static constexpr int kElements = 32;
  static constexpr size_t kGroupStep = kPackedBlockBytes;
  // |w| * (x with the sign of w): both factors of maddubs hold, also for w = -128, and a sum of two
  // products is at most 2 * 128 * 127 = 32512.
  template <int R, int H>
  static inline __attribute__((always_inline)) void Step(const uint8_t* panel, size_t b,
                                                         size_t ahead, int half, const uint8_t* x,
                                                         __m256 (&acc)[R][H]) {
    const uint8_t* pair = panel + b / 2 * kQ80PairBytes;
    const uint8_t* lines = pair + 64 + b % 2 * 512;
    for (int i = 0; i < 9; ++i) Prefetch(lines + ahead + 64 * i);
    __m256i sum[R][H];
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
#pragma GCC unroll 2
      for (int h = 0; h < H; ++h) {
        const __m256i stored = LoadInts(lines + 64 * j + 32 * (half + h));
        const __m256i w = _mm256_xor_si256(stored, _mm256_set1_epi8(-128));
        const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const __m256i signed_x = _mm256_sign_epi8(BroadcastInt(x + 16 * j + 4 * r), w);
          const __m256i product =
              _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_x), _mm256_set1_epi16(1));
          sum[r][h] = j == 0 ? product : _mm256_add_epi32(sum[r][h], product);
        }
      }
    }
    Accumulate<R, H>(pair + b % 2 * 32, half, x, sum, acc);
  }
};

// F32 (kHalf = false) and F16: one input feature a step; groups of rows are [k][4] f32.
template <bool kHalf>
struct Floats {
  static constexpr int kElements = 1;
  static constexpr size_t kGroupStep = kRowGroup * sizeof(float);
  template <int R, int H>
  static inline __attribute__((always_inline)) void Step(const uint8_t* panel, size_t k,
                                                         size_t ahead, int half, const uint8_t* x,
                                                         __m256 (&acc)[R][H]) {
    const uint8_t* at = panel + k * (kHalf ? 32 : 64);
    Prefetch(at + ahead);
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const __m256 w = kHalf ? Scale8(at + 16 * (half + h))
                             : _mm256_load_ps(reinterpret_cast<const float*>(at) + 8 * (half + h));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        acc[r][h] = _mm256_fmadd_ps(w, BroadcastFloat(x + 4 * r), acc[r][h]);
      }
    }
  }
};

// R rows (of one packed group) and H halves of one panel, the accumulators in registers from the
// first block to the last.
template <typename Type, int R, int H>
RW_INLINE void MultiplyHalves(const uint8_t* panel, int k, size_t ahead, const uint8_t* group,
                              int half, int cols, float* y, int64_t y_stride) {
  __m256 acc[R][H];
  for (int r = 0; r < R; ++r) {
    for (int h = 0; h < H; ++h) acc[r][h] = _mm256_setzero_ps();
  }
  const size_t steps = static_cast<size_t>(k / Type::kElements);
  for (size_t b = 0; b < steps; ++b) {
    Type::template Step<R, H>(panel, b, ahead, half, group + b * Type::kGroupStep, acc);
  }
  for (int r = 0; r < R; ++r) {
    for (int h = 0; h < H; ++h) {
      const int column = 8 * (half + h);
      _mm256_maskstore_ps(y + r * y_stride + column, LanesBelow(cols, column), acc[r][h]);
    }
  }
}

// Up to two rows: both halves of a panel at once, which share the broadcasts. More: one by one.
template <typename Type, int R>
static void MultiplyTile(const uint8_t* panel, int k, size_t ahead, const uint8_t* group, int cols,
                         float* y, int64_t y_stride) {
  if constexpr (R <= 2 || Type::kElements == 1) {
    MultiplyHalves<Type, R, 2>(panel, k, ahead, group, 0, cols, y, y_stride);
  } else {
    MultiplyHalves<Type, R, 1>(panel, k, ahead, group, 0, cols, y, y_stride);
    MultiplyHalves<Type, R, 1>(panel, k, 0, group, 1, cols, y, y_stride);
  }
}

using TileFunction = void (*)(const uint8_t* panel, int k, size_t ahead, const uint8_t* group,
                              int cols, float* y, int64_t y_stride);

struct TileFunctions {
  TileFunction rows[kMaxRows + 1];
};

template <typename Type>
constexpr TileFunctions TilesOf() {
  return {{nullptr, MultiplyTile<Type, 1>, MultiplyTile<Type, 2>, MultiplyTile<Type, 3>,
           MultiplyTile<Type, 4>}};
}

constexpr TileFunctions kTiles[] = {TilesOf<Floats<false>>(), TilesOf<Floats<true>>(),
                                    TilesOf<Q40>(), TilesOf<Q41>(), TilesOf<Q80>()};

static void MatMul(const Matrix& w, const std::byte* packed, int rows, int panel_begin,
                   int panel_end, float* y, int64_t y_stride) {
  const TileFunctions& tiles = kTiles[static_cast<int>(w.type)];
  const size_t panel_bytes = PanelBytes(w.type, w.k);
  const size_t group_bytes = PackedRowsBytes(w.type, kRowGroup, w.k);
  for (int p = panel_begin; p < panel_end; ++p) {
    const uint8_t* panel =
        reinterpret_cast<const uint8_t*>(w.panels) + static_cast<size_t>(p) * panel_bytes;
    for (int first = 0; first < rows; first += kMaxRows) {
      const int height = rows - first < kMaxRows ? rows - first : kMaxRows;
      const uint8_t* group = reinterpret_cast<const uint8_t*>(packed) +
                             static_cast<size_t>(first / kRowGroup) * group_bytes;
      tiles.rows[height](panel, w.k, first == 0 ? kPrefetchAhead : 0, group, w.n - p * kPanelCols,
                         y + first * y_stride + static_cast<int64_t>(p) * kPanelCols, y_stride);
    }
  }
}

}  // namespace

const Kernels kAvx2Kernels = {
    .name = "avx2",
    .pack_rows = PackRows,
    .matmul = MatMul,
    .rms_norm = RmsNorm,
    .rope = Rope,
    .swiglu = SwiGlu,
    .add = AddTo,
    .store_kv = StoreKv,
    .attention = Attention,
    .attention_merge = AttentionMerge,
    .argmax = ArgMax,
    .log_sum_exp = LogSumExp,
    .exp_shifted = ExpShifted,
};

}  // namespace ropeway
