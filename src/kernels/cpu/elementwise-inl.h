// Element-wise kernels and reductions over Vec (vec-*-inl.h); reference.cc defines them. Included
// by one file per instruction set.
#ifndef ROPEWAY_KERNELS_CPU_ELEMENTWISE_INL_H_
#define ROPEWAY_KERNELS_CPU_ELEMENTWISE_INL_H_

#include "kernels/kernels.h"

namespace ropeway::kernels {
namespace {

RW_INLINE float BitsToFloat(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

RW_INLINE uint32_t FloatToBits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

RW_INLINE float NegativeInfinity() { return -__builtin_inff(); }

// The fixed tree: lane i + lane i + 8, then + 4, + 2, + 1.
RW_INLINE float SumLanes(Vec a) {
  const __m256 eight = _mm256_add_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// REQUIRES: no lane is NaN.
RW_INLINE float MaxLanes(Vec a) {
  const __m256 eight = _mm256_max_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

RW_INLINE float ScalarExp(float x) {
  float lanes[16];
  Store(lanes, Exp(Set1(x)));
  return lanes[0];
}

// Log of reference.cc.
static float ScalarLog(float x) {
  if (x != x || x < 0.0F) return __builtin_nanf("");
  if (x == 0.0F) return NegativeInfinity();
  if (x > __FLT_MAX__) return x;
  float exponent = 0.0F;
  if (x < __FLT_MIN__) {
    x = x * 0x1p+23F;
    exponent = -23.0F;
  }
  const int32_t e = static_cast<int32_t>(FloatToBits(x) - RW_SQRT_HALF_BITS) >> 23;
  const float f = BitsToFloat(FloatToBits(x) - (static_cast<uint32_t>(e) << 23)) - 1.0F;
  exponent = exponent + static_cast<float>(e);
  float p = RW_LOG_C8;
  p = __builtin_fmaf(p, f, RW_LOG_C7);
  p = __builtin_fmaf(p, f, RW_LOG_C6);
  p = __builtin_fmaf(p, f, RW_LOG_C5);
  p = __builtin_fmaf(p, f, RW_LOG_C4);
  p = __builtin_fmaf(p, f, RW_LOG_C3);
  p = __builtin_fmaf(p, f, RW_LOG_C2);
  p = __builtin_fmaf(p, f, RW_LOG_C1);
  p = __builtin_fmaf(p, f, RW_LOG_C0);
  const float square = f * f;
  float low = square * f * p;
  low = __builtin_fmaf(exponent, RW_LN2_LO, low);
  low = __builtin_fmaf(square, -0.5F, low);
  return __builtin_fmaf(exponent, RW_LN2_HI, f + low);
}

// The largest element, NaN ignored; -infinity if there is none.
static float MaxOf(const float* x, int n) {
  const Vec least = Set1(NegativeInfinity());
  Vec best0 = least;
  Vec best1 = least;
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    best0 = MaxNum(Load(x + i), best0);
    best1 = MaxNum(Load(x + i + 16), best1);
  }
  for (; i < n; i += 16) best0 = MaxNum(KeepFirst(LoadN(x + i, n - i), n - i, least), best0);
  return MaxLanes(MaxNum(best0, best1));
}

static void RmsNorm(const float* x, const float* weight, int n, float eps, float* y) {
  Vec lanes = Zero();
  // Lanes past the end add 0 * 0 to a sum that is never -0: no change.
  for (int i = 0; i < n; i += 16) {
    const Vec v = LoadN(x + i, n - i);
    lanes = Fma(v, v, lanes);
  }
  const float mean = SumLanes(lanes) / static_cast<float>(n);
  const __m128 root = _mm_sqrt_ss(_mm_set_ss(mean + eps));
  const Vec scale = Set1(1.0F / _mm_cvtss_f32(root));
  for (int i = 0; i < n; i += 16) {
    StoreN(y + i, n - i, Mul(Mul(LoadN(x + i, n - i), scale), LoadN(weight + i, n - i)));
  }
}

static void LayerNorm(const float* x, const float* weight, const float* bias, int n, float eps,
                      float* y) {
  Vec sums = Zero();
  for (int i = 0; i < n; i += 16) sums = Add(sums, LoadN(x + i, n - i));
  const Vec mean = Set1(SumLanes(sums) / static_cast<float>(n));
  Vec squares = Zero();
  for (int i = 0; i < n; i += 16) {
    const Vec d = KeepFirst(Sub(LoadN(x + i, n - i), mean), n - i, Zero());
    squares = Fma(d, d, squares);
  }
  const float variance = SumLanes(squares) / static_cast<float>(n);
  const __m128 root = _mm_sqrt_ss(_mm_set_ss(variance + eps));
  const Vec scale = Set1(1.0F / _mm_cvtss_f32(root));
  for (int i = 0; i < n; i += 16) {
    const Vec d = Mul(Sub(LoadN(x + i, n - i), mean), scale);
    StoreN(y + i, n - i, Fma(d, LoadN(weight + i, n - i), LoadN(bias + i, n - i)));
  }
}

// Four pairs at a time: y = fma(x0, (c, s), (-(x1 * s), x1 * c)).
static void Rope(float* x, int heads, int head_dim, int rope_dim, const float* cos_sin) {
  const int pairs = rope_dim / 2;
  const __m256 even_sign = _mm256_setr_ps(-0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F);
  for (int h = 0; h < heads; ++h) {
    float* head = x + static_cast<int64_t>(h) * head_dim;
    int i = 0;
    for (; i + 4 <= pairs; i += 4) {
      const __m128 c = _mm_loadu_ps(cos_sin + i);
      const __m128 s = _mm_loadu_ps(cos_sin + pairs + i);
      const __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s));
      const __m256 sc = _mm256_permute_ps(cs, 0xB1);
      const __m256 v = _mm256_loadu_ps(head + 2 * i);
      const __m256 product = _mm256_mul_ps(_mm256_movehdup_ps(v), sc);
      const __m256 signed_product = _mm256_xor_ps(product, even_sign);
      _mm256_storeu_ps(head + 2 * i, _mm256_fmadd_ps(_mm256_moveldup_ps(v), cs, signed_product));
    }
    for (; i < pairs; ++i) {
      const float c = cos_sin[i];
      const float s = cos_sin[pairs + i];
      const float x0 = head[2 * i];
      const float x1 = head[2 * i + 1];
      head[2 * i] = __builtin_fmaf(x0, c, -(x1 * s));
      head[2 * i + 1] = __builtin_fmaf(x0, s, x1 * c);
    }
  }
}

static void RopeHalves(float* x, int heads, int head_dim, int rope_dim, const float* cos_sin) {
  const int pairs = rope_dim / 2;
  for (int h = 0; h < heads; ++h) {
    float* first = x + static_cast<int64_t>(h) * head_dim;
    float* second = first + pairs;
    int i = 0;
    for (; i + 8 <= pairs; i += 8) {
      const __m256 c = _mm256_loadu_ps(cos_sin + i);
      const __m256 s = _mm256_loadu_ps(cos_sin + pairs + i);
      const __m256 x0 = _mm256_loadu_ps(first + i);
      const __m256 x1 = _mm256_loadu_ps(second + i);
      _mm256_storeu_ps(first + i, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
      _mm256_storeu_ps(second + i, _mm256_fmadd_ps(x0, s, _mm256_mul_ps(x1, c)));
    }
    for (; i < pairs; ++i) {
      const float c = cos_sin[i];
      const float s = cos_sin[pairs + i];
      const float x0 = first[i];
      const float x1 = second[i];
      first[i] = __builtin_fmaf(x0, c, -(x1 * s));
      second[i] = __builtin_fmaf(x0, s, x1 * c);
    }
  }
}

// x / (1 + e^-slope).
RW_INLINE Vec OverOnePlusExp(Vec x, Vec slope) {
  return Div(x, Add(Set1(1.0F), Exp(Sub(Zero(), slope))));
}

RW_INLINE Vec GeluOf(Vec x) {
  const Vec slope = Fma(Mul(x, x), Set1(RW_GELU_CUBIC), Set1(RW_GELU_LINEAR));
  return OverOnePlusExp(x, Mul(x, slope));
}

// x times the normal distribution's share below x.
RW_INLINE Vec ExactGeluOf(Vec x) {
  // NaN stays NaN: it is the second operand.
  const Vec positive = MaxNum(Zero(), x);
  const Vec a = MinNum(Set1(RW_TAIL_LIMIT), MaxNum(Sub(Zero(), x), x));
  const Vec t = Div(Set1(1.0F), Fma(a, Set1(RW_TAIL_SLOPE), Set1(1.0F)));
  Vec p = Set1(RW_TAIL_C8);
  p = Fma(p, t, Set1(RW_TAIL_C7));
  p = Fma(p, t, Set1(RW_TAIL_C6));
  p = Fma(p, t, Set1(RW_TAIL_C5));
  p = Fma(p, t, Set1(RW_TAIL_C4));
  p = Fma(p, t, Set1(RW_TAIL_C3));
  p = Fma(p, t, Set1(RW_TAIL_C2));
  p = Fma(p, t, Set1(RW_TAIL_C1));
  p = Fma(p, t, Set1(RW_TAIL_C0));
  const Vec tail = Mul(Mul(p, t), Exp(Sub(Zero(), Mul(Mul(a, a), Set1(0.5F)))));
  return Fma(Sub(Zero(), a), tail, positive);
}

// cap * tanh(x / cap).
RW_INLINE Vec SoftCap(Vec x, float cap) {
  const Vec e = Exp(Mul(x, Set1(2.0F / cap)));
  return Sub(Set1(cap), Div(Set1(cap + cap), Add(e, Set1(1.0F))));
}

static void SwiGlu(const float* gate, const float* up, int n, float* y) {
  for (int i = 0; i < n; i += 16) {
    const Vec g = LoadN(gate + i, n - i);
    const Vec silu = Div(g, Add(Set1(1.0F), Exp(Sub(Zero(), g))));
    StoreN(y + i, n - i, Mul(silu, LoadN(up + i, n - i)));
  }
}

static void GeGlu(const float* gate, const float* up, int n, float* y) {
  for (int i = 0; i < n; i += 16) {
    StoreN(y + i, n - i, Mul(GeluOf(LoadN(gate + i, n - i)), LoadN(up + i, n - i)));
  }
}

static void SwiGluClamped(const float* gate, const float* up, int n, float* y) {
  const Vec limit = Set1(RW_CLAMPED_LIMIT);
  for (int i = 0; i < n; i += 16) {
    const Vec g = MinNum(limit, LoadN(gate + i, n - i));
    const Vec u = MaxNum(Set1(-RW_CLAMPED_LIMIT), MinNum(limit, LoadN(up + i, n - i)));
    const Vec glu = OverOnePlusExp(g, Mul(g, Set1(RW_CLAMPED_ALPHA)));
    StoreN(y + i, n - i, Mul(Add(u, Set1(1.0F)), glu));
  }
}

static void Gelu(const float* x, int n, float* y) {
  for (int i = 0; i < n; i += 16) StoreN(y + i, n - i, GeluOf(LoadN(x + i, n - i)));
}

static void ExactGelu(const float* x, int n, float* y) {
  for (int i = 0; i < n; i += 16) StoreN(y + i, n - i, ExactGeluOf(LoadN(x + i, n - i)));
}

static void AddTo(float* x, const float* y, int n) {
  for (int i = 0; i < n; i += 16) {
    StoreN(x + i, n - i, Add(LoadN(x + i, n - i), LoadN(y + i, n - i)));
  }
}

static void AddScaled(float* x, const float* y, float factor, int n) {
  for (int i = 0; i < n; i += 16) {
    StoreN(x + i, n - i, Fma(Set1(factor), LoadN(y + i, n - i), LoadN(x + i, n - i)));
  }
}

static void ScaleBy(float* x, float factor, int n) {
  for (int i = 0; i < n; i += 16) {
    StoreN(x + i, n - i, Mul(LoadN(x + i, n - i), Set1(factor)));
  }
}

static void SoftCapAll(float* x, float cap, int n) {
  for (int i = 0; i < n; i += 16) StoreN(x + i, n - i, SoftCap(LoadN(x + i, n - i), cap));
}

static int32_t ArgMax(const float* x, int n) {
  const Vec max = Set1(MaxOf(x, n));
  for (int i = 0; i < n; i += 16) {
    uint32_t equal = EqualLanes(LoadN(x + i, n - i), max);
    if (n - i < 16) equal &= (1U << (n - i)) - 1U;
    if (equal != 0) return i + __builtin_ctz(equal);
  }
  return 0;
}

static float LogSumExp(const float* x, int n) {
  const float max = MaxOf(x, n);
  Vec lanes = Zero();
  for (int i = 0; i < n; i += 16) {
    const Vec e = Exp(Sub(LoadN(x + i, n - i), Set1(max)));
    lanes = Add(lanes, KeepFirst(e, n - i, Zero()));
  }
  return max + ScalarLog(SumLanes(lanes));
}

static void ExpWeights(const float* x, int n, float shift, float divisor, float least, float* y) {
  for (int i = 0; i < n; i += 16) {
    const Vec e = Div(Sub(LoadN(x + i, n - i), Set1(shift)), Set1(divisor));
    StoreN(y + i, n - i, WhereAtLeast(e, Set1(least), Exp(e)));
  }
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_ELEMENTWISE_INL_H_
