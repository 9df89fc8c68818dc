// See free_order.h. What an engine that need not give the same bits would do, kernel by kernel; the
// comments say what was kept from the fixed order because it is as fast.
// Each header uses what the ones before it define.
#include "kernels/kernels.h"

namespace ropeway {
namespace {
// A softmax group as long as is fastest: fewer corrections of the old sums.
enum { kFreeSoftmaxTokens = 256 };
}  // namespace
}  // namespace ropeway

// clang-format off
#include "kernels/cpu/vec-avx512-inl.h"
#include "kernels/cpu/elementwise-inl.h"
#define kSoftmaxTokens kFreeSoftmaxTokens
#include "kernels/cpu/attention-inl.h"
#undef kSoftmaxTokens
// The production kernels once more, where nothing below replaces them; their table is not used.
#define kAvx512VnniKernels kUnusedTable
#include "kernels/cpu/avx512vnni.cc"
#undef kAvx512VnniKernels
// clang-format on

#include "free_order.h"

namespace ropeway {
namespace {

// Four chains hide the latency of the additions.
static void FreeRmsNorm(const float* x, const float* weight, int n, float eps, float* y) {
  Vec lanes[4] = {Zero(), Zero(), Zero(), Zero()};
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) {
      const Vec v = Load(x + i + 16 * j);
      lanes[j] = Fma(v, v, lanes[j]);
    }
  }
  for (; i < n; i += 16) {
    const Vec v = LoadN(x + i, n - i);
    lanes[0] = Fma(v, v, lanes[0]);
  }
  const Vec all = Add(Add(lanes[0], lanes[1]), Add(lanes[2], lanes[3]));
  const float mean = _mm512_reduce_add_ps(all.v) / static_cast<float>(n);
  const Vec scale = Set1(1.0F / __builtin_sqrtf(mean + eps));
  for (i = 0; i < n; i += 16) {
    StoreN(y + i, n - i, Mul(Mul(LoadN(x + i, n - i), scale), LoadN(weight + i, n - i)));
  }
}

// An estimate and one step of Newton's in place of a division: within 2 units in the last place,
// but the estimate's bits are each maker's own.
static void FreeSwiGlu(const float* gate, const float* up, int n, float* y) {
  const Vec one = Set1(1.0F);
  const Vec two = Set1(2.0F);
  for (int i = 0; i < n; i += 16) {
    const Vec g = LoadN(gate + i, n - i);
    const Vec denominator = Add(one, Exp(Sub(Zero(), g)));
    const Vec estimate = {_mm512_rcp14_ps(denominator.v)};
    const Vec inverse = {
        _mm512_mul_ps(estimate.v, _mm512_fnmadd_ps(denominator.v, estimate.v, two.v))};
    // Where exp overflows, the estimate is 0 and the step's product is not a number: silu is -0.
    const Vec silu = {_mm512_mask_mul_ps(
        _mm512_setzero_ps(), _mm512_cmp_ps_mask(denominator.v, Set1(1e38F).v, _CMP_LT_OQ), g.v,
        inverse.v)};
    StoreN(y + i, n - i, Mul(silu, LoadN(up + i, n - i)));
  }
}

static float FreeLogSumExp(const float* x, int n) {
  const float max = MaxOf(x, n);
  const Vec shift = Set1(max);
  Vec lanes[4] = {Zero(), Zero(), Zero(), Zero()};
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) {
      lanes[j] = Add(lanes[j], Exp(Sub(Load(x + i + 16 * j), shift)));
    }
  }
  for (; i < n; i += 16) {
    const Vec e = Exp(Sub(LoadN(x + i, n - i), shift));
    lanes[0] = Add(lanes[0], KeepFirst(e, n - i, Zero()));
  }
  const Vec all = Add(Add(lanes[0], lanes[1]), Add(lanes[2], lanes[3]));
  return max + ScalarLog(_mm512_reduce_add_ps(all.v));
}

// Few rows: two chains of float sums per output, over even and over odd blocks, and the minima in
// chains of their own. Many rows have enough chains, and cost the same number of instructions in
// any order: those are MatMul's.
enum { kFreeRows = 4 };
enum : size_t { kFreeAhead = 4096 };

RW_INLINE float FloatAt(const uint8_t* at) {
  float value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

RW_INLINE __m512i FourBytes(const uint8_t* at) {
  int32_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return _mm512_set1_epi32(value);
}

RW_INLINE __m512 Halves(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
}

// Block b of a Q4_1 panel for R rows.
template <int R>
RW_INLINE void FreeBlockQ41(const uint8_t* block, const uint8_t* x, __m512 (&acc)[R],
                            __m512 (&min)[R]) {
  const __m512i low_bits = _mm512_set1_epi8(15);
  __m512i low[R];
  __m512i high[R];
  for (int r = 0; r < R; ++r) low[r] = high[r] = _mm512_setzero_si512();
  for (int i = 0; i < 5; ++i) Prefetch(block + kFreeAhead + 64 * i);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i both = _mm512_load_si512(block + kQ41DataOffset + 64 * j);
    const __m512i w_low = _mm512_and_si512(both, low_bits);
    const __m512i w_high = _mm512_and_si512(_mm512_srli_epi16(both, 4), low_bits);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      low[r] = _mm512_dpbusd_epi32(low[r], w_low, FourBytes(x + 16 * j + 4 * r));
      high[r] = _mm512_dpbusd_epi32(high[r], w_high, FourBytes(x + 16 * (j + 4) + 4 * r));
    }
  }
  const __m512 d = Halves(block);
  const __m512 m = Halves(block + 32);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(FloatAt(x + kPackedScaleOffset + 4 * r)));
    acc[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(_mm512_add_epi32(low[r], high[r])), acc[r]);
    min[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(FloatAt(x + kPackedAuxOffset + 4 * r)), min[r]);
  }
}

template <int R>
static void FreePanelQ41(const uint8_t* panel, const uint8_t* packed, int blocks, int cols,
                         float* y, int64_t y_stride) {
  __m512 acc[2][R];
  __m512 min[R];
  for (int r = 0; r < R; ++r) acc[0][r] = acc[1][r] = min[r] = _mm512_setzero_ps();
  int b = 0;
  for (; b + 2 <= blocks; b += 2, panel += 2 * kQ41BlockBytes, packed += 2 * kPackedBlockBytes) {
    FreeBlockQ41<R>(panel, packed, acc[0], min);
    FreeBlockQ41<R>(panel + kQ41BlockBytes, packed + kPackedBlockBytes, acc[1], min);
  }
  if (b < blocks) FreeBlockQ41<R>(panel, packed, acc[0], min);
  for (int r = 0; r < R; ++r) {
    const __m512 sum = _mm512_add_ps(_mm512_add_ps(acc[0][r], acc[1][r]), min[r]);
    _mm512_mask_storeu_ps(y + r * y_stride, FirstLanes(cols), sum);
  }
}

template <int R>
static void FreeMatMulQ41(const Matrix& w, const std::byte* packed, int panel_begin, int panel_end,
                          float* y, int64_t y_stride) {
  const int blocks = w.k / static_cast<int>(kQuantBlock);
  const size_t bytes = PanelBytes(w.type, w.k);
  for (int p = panel_begin; p < panel_end; ++p) {
    FreePanelQ41<R>(reinterpret_cast<const uint8_t*>(w.panels) + static_cast<size_t>(p) * bytes,
                    reinterpret_cast<const uint8_t*>(packed), blocks, w.n - p * kPanelCols,
                    y + static_cast<int64_t>(p) * kPanelCols, y_stride);
  }
}

static void FreeMatMul(const Matrix& w, const std::byte* packed, int rows, int panel_begin,
                       int panel_end, float* y, int64_t y_stride) {
  if (w.type != WeightType::kQ4_1 || rows > kFreeRows) {
    return MatMul(w, packed, rows, panel_begin, panel_end, y, y_stride);
  }
  switch (rows) {
    case 1:
      return FreeMatMulQ41<1>(w, packed, panel_begin, panel_end, y, y_stride);
    case 2:
      return FreeMatMulQ41<2>(w, packed, panel_begin, panel_end, y, y_stride);
    case 3:
      return FreeMatMulQ41<3>(w, packed, panel_begin, panel_end, y, y_stride);
    default:
      return FreeMatMulQ41<4>(w, packed, panel_begin, panel_end, y, y_stride);
  }
}

}  // namespace

// What is not here (pack_rows, rope, add, store_kv, argmax, exp_shifted) computes each number for
// itself: there is no order in it.
const FreeKernel kFreeKernels[kNumFreeKernels] = {
    {"matmul", [](Kernels* table) { table->matmul = FreeMatMul; }},
    {"attention", [](Kernels* table) { table->attention = Attention; }},
    {"rms_norm", [](Kernels* table) { table->rms_norm = FreeRmsNorm; }},
    {"swiglu", [](Kernels* table) { table->swiglu = FreeSwiGlu; }},
    {"log_sum_exp", [](Kernels* table) { table->log_sum_exp = FreeLogSumExp; }},
};

}  // namespace ropeway
