// The table for AVX-512 with VNNI. Includes no C++ library header (CMakeLists.txt says why).
// Each header uses what the ones before it define.
// clang-format off
#include "kernels/cpu/vec-avx512-inl.h"
#include "kernels/cpu/elementwise-inl.h"
#include "kernels/cpu/attention-inl.h"
#include "kernels/cpu/pack-inl.h"
// clang-format on

namespace ropeway {
namespace {

constexpr int kMaxRows = 12;  // Rows of one tile: 12 int and 12 float accumulators.
constexpr size_t kPrefetchAhead = 4096;

// A tile's activations: groups of four packed rows.
struct TileRows {
  const uint8_t* group;  // Of the tile's first row.
  size_t group_bytes;
};

RW_INLINE const uint8_t* BlockOfRow(const TileRows& rows, int r, size_t b) {
  return rows.group + static_cast<size_t>(r / kRowGroup) * rows.group_bytes + b * kPackedBlockBytes;
}

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

// Block b of a panel for R rows: acc[r] gains what docs/numerics.md says.
template <int R>
RW_INLINE void BlockQ4(const uint8_t* lines, __m512 d, const __m512i (&start)[R],
                       const uint8_t* const (&x)[R], __m512 (&acc)[R]) {
  const __m512i low_bits = _mm512_set1_epi8(15);
  __m512i low_sum[R];
  __m512i high_sum[R];
  for (int r = 0; r < R; ++r) {
    low_sum[r] = start[r];
    high_sum[r] = _mm512_setzero_si512();
  }
  // Few rows: two chains of dot products each, for their latency; many: registers are scarce.
  constexpr bool kTwoChains = R <= 4;
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i both = _mm512_load_si512(lines + 64 * j);
    const __m512i low = _mm512_and_si512(both, low_bits);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), low_bits);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      low_sum[r] = _mm512_dpbusd_epi32(low_sum[r], low, BroadcastInt(x[r] + 16 * j));
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      __m512i& sum = kTwoChains ? high_sum[r] : low_sum[r];
      sum = _mm512_dpbusd_epi32(sum, high, BroadcastInt(x[r] + 16 * (j + 4)));
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const __m512i sum = kTwoChains ? _mm512_add_epi32(low_sum[r], high_sum[r]) : low_sum[r];
    const __m512 scale = _mm512_mul_ps(d, BroadcastFloat(x[r] + kPackedScaleOffset));
    acc[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sum), acc[r]);
  }
}

RW_INLINE __m512 Scale16(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
}

// The kernels below are policies of MultiplyTile: Step consumes one block of input features.
struct Q41 {
  static constexpr int kElements = 32;
  template <int R>
  static inline __attribute__((always_inline)) void Step(const uint8_t* panel, size_t b,
                                                         size_t ahead, const TileRows& rows,
                                                         __m512 (&acc)[R]) {
    const uint8_t* block = panel + b * kQ41BlockBytes;
    for (int i = 0; i < 5; ++i) Prefetch(block + ahead + 64 * i);
    const uint8_t* x[R];
    __m512i start[R];
    for (int r = 0; r < R; ++r) {
      x[r] = BlockOfRow(rows, r, b) + r % kRowGroup * 4;
      start[r] = _mm512_setzero_si512();
    }
    BlockQ4<R>(block + kQ41DataOffset, Scale16(block), start, x, acc);
    const __m512 m = Scale16(block + 32);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      acc[r] = _mm512_fmadd_ps(m, BroadcastFloat(x[r] + kPackedAuxOffset), acc[r]);
    }
  }
};

struct Q40 {
  static constexpr int kElements = 32;
  template <int R>
  static inline __attribute__((always_inline)) void Step(const uint8_t* panel, size_t b,
                                                         size_t ahead, const TileRows& rows,
                                                         __m512 (&acc)[R]) {
    const uint8_t* pair = panel + b / 2 * kQ40PairBytes;
    const uint8_t* lines = pair + 64 + b % 2 * 256;
    for (int i = 0; i < 5; ++i) Prefetch(lines + ahead + 64 * i);
    const uint8_t* x[R];
    __m512i start[R];
    for (int r = 0; r < R; ++r) {
      x[r] = BlockOfRow(rows, r, b) + r % kRowGroup * 4;
      start[r] = BroadcastInt(x[r] + kPackedAuxOffset);
    }
    BlockQ4<R>(lines, Scale16(pair + b % 2 * 32), start, x, acc);
  }
};

struct Q80 {
  static constexpr int kElements = 32;
  template <int R>
  static inline __attribute__((always_inline)) void Step(const uint8_t* panel, size_t b,
                                                         size_t ahead, const TileRows& rows,
                                                         __m512 (&acc)[R]) {
    const uint8_t* pair = panel + b / 2 * kQ80PairBytes;
    const uint8_t* lines = pair + 64 + b % 2 * 512;
    for (int i = 0; i < 9; ++i) Prefetch(lines + ahead + 64 * i);
    const uint8_t* x[R];
    __m512i even[R];
    __m512i odd[R];
    for (int r = 0; r < R; ++r) {
      x[r] = BlockOfRow(rows, r, b) + r % kRowGroup * 4;
      even[r] = BroadcastInt(x[r] + kPackedAuxOffset);
      odd[r] = _mm512_setzero_si512();
    }
    constexpr bool kTwoChains = R <= 4;
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const __m512i w = _mm512_load_si512(lines + 64 * j);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        __m512i& sum = kTwoChains && j % 2 == 1 ? odd[r] : even[r];
        sum = _mm512_dpbusd_epi32(sum, w, BroadcastInt(x[r] + 16 * j));
      }
    }
    const __m512 d = Scale16(pair + b % 2 * 32);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const __m512i sum = kTwoChains ? _mm512_add_epi32(even[r], odd[r]) : even[r];
      const __m512 scale = _mm512_mul_ps(d, BroadcastFloat(x[r] + kPackedScaleOffset));
      acc[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sum), acc[r]);
    }
  }
};

// F32 (kHalf = false) and F16: one input feature a step; groups of rows are [k][4] f32.
template <bool kHalf>
struct Floats {
  static constexpr int kElements = 1;
  template <int R>
  static inline __attribute__((always_inline)) void Step(const uint8_t* panel, size_t k,
                                                         size_t ahead, const TileRows& rows,
                                                         __m512 (&acc)[R]) {
    const uint8_t* at = panel + k * (kHalf ? 32 : 64);
    Prefetch(at + ahead);
    const __m512 w = kHalf ? Scale16(at) : _mm512_load_ps(reinterpret_cast<const float*>(at));
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const uint8_t* group = rows.group + static_cast<size_t>(r / kRowGroup) * rows.group_bytes;
      acc[r] = _mm512_fmadd_ps(w, BroadcastFloat(group + k * 16 + r % kRowGroup * 4), acc[r]);
    }
  }
};

// One panel for R rows, the accumulators in registers from the first block to the last. One panel
// is enough even for one row: the core overlaps the dot products of following blocks by itself, and
// several panels at once would read memory at as many places, each with its own cold start.
template <typename Type, int R>
static void MultiplyTile(const uint8_t* panel, int k, size_t ahead, const TileRows& rows, int cols,
                         float* y, int64_t y_stride) {
  __m512 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
  const size_t steps = static_cast<size_t>(k / Type::kElements);
  for (size_t b = 0; b < steps; ++b) Type::template Step<R>(panel, b, ahead, rows, acc);
  for (int r = 0; r < R; ++r) {
    _mm512_mask_storeu_ps(y + r * y_stride, FirstLanes(cols), acc[r]);
  }
}

using TileFunction = void (*)(const uint8_t* panel, int k, size_t ahead, const TileRows& rows,
                              int cols, float* y, int64_t y_stride);

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

constexpr TileFunctions kTiles[] = {TilesOf<Floats<false>>(), TilesOf<Floats<true>>(),
                                    TilesOf<Q40>(), TilesOf<Q41>(), TilesOf<Q80>()};

static void MatMul(const Matrix& w, const std::byte* packed, int rows, int panel_begin,
                   int panel_end, float* y, int64_t y_stride) {
  const TileFunctions& tiles = kTiles[static_cast<int>(w.type)];
  const size_t panel_bytes = PanelBytes(w.type, w.k);
  const size_t group_bytes = PackedRowsBytes(w.type, kRowGroup, w.k);
  // Tiles of about equal height, each a multiple of kRowGroup rows but the last.
  const int groups = (rows + kRowGroup - 1) / kRowGroup;
  const int num_tiles = (groups + kMaxRows / kRowGroup - 1) / (kMaxRows / kRowGroup);
  for (int p = panel_begin; p < panel_end; ++p) {
    const uint8_t* panel =
        reinterpret_cast<const uint8_t*>(w.panels) + static_cast<size_t>(p) * panel_bytes;
    const int cols = w.n - p * kPanelCols;
    for (int t = 0; t < num_tiles; ++t) {
      const int group = groups * t / num_tiles;
      const int first = group * kRowGroup;
      const int stop = groups * (t + 1) / num_tiles * kRowGroup;
      const int height = (stop < rows ? stop : rows) - first;
      const TileRows tile_rows = {
          reinterpret_cast<const uint8_t*>(packed) + static_cast<size_t>(group) * group_bytes,
          group_bytes};
      tiles.rows[height](panel, w.k, t == 0 ? kPrefetchAhead : 0, tile_rows, cols,
                         y + first * y_stride + static_cast<int64_t>(p) * kPanelCols, y_stride);
    }
  }
}

}  // namespace

const Kernels kAvx512VnniKernels = {
    .name = "avx512vnni",
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
