// See free_order.h. What an engine that need not give the same bits would do, kernel by kernel; the
// comments say what was kept from the fixed order because it is as fast.
// Each header uses what the ones before it define.
#include "kernels/kernels.h"

namespace ropeway::kernels {
namespace {
// A softmax group as long as is fastest: fewer corrections of the old sums.
enum { kFreeSoftmaxTokens = 256 };
}  // namespace
}  // namespace ropeway::kernels

// clang-format off
#include "kernels/cpu/vec-avx512-inl.h"
#include "kernels/cpu/elementwise-inl.h"
#define kSoftmaxTokens kFreeSoftmaxTokens
#include "kernels/cpu/attention-inl.h"
#undef kSoftmaxTokens
// clang-format on

#include "bench/free_order.h"

namespace ropeway::kernels {
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

// Long groups pay for many rows; with few, a short context is better cut as the production kernel
// cuts it.
static void FreeAttention(const kernels::AttentionArgs& args, int split, float* partial) {
  if (args.rows * args.group <= kTileQueries) {
    kernels::kAvx512VnniKernels.attention(args, split, partial);
  } else {
    Attention(args, split, partial);
  }
}

}  // namespace

}  // namespace ropeway::kernels

namespace ropeway::bench {

// What is not here (pack_rows, rope, add, store_kv, argmax, exp_weights) computes each number for
// itself: there is no order in it. Nor is matmul: its integer sums are exact in any order, and its
// float sums cost the same instructions in any; two chains over even and over odd blocks, which
// only few rows could want, were no faster (median of 5 pairs at one row 0.94).
const FreeKernel kFreeKernels[kNumFreeKernels] = {
    {"attention", [](kernels::Kernels* table) { table->attention = kernels::FreeAttention; }},
    {"rms_norm", [](kernels::Kernels* table) { table->rms_norm = kernels::FreeRmsNorm; }},
    {"swiglu", [](kernels::Kernels* table) { table->swiglu = kernels::FreeSwiGlu; }},
    {"log_sum_exp", [](kernels::Kernels* table) { table->log_sum_exp = kernels::FreeLogSumExp; }},
};

}  // namespace ropeway::bench
