// Element-wise operations and reductions of the reference table, and the table itself.
#include "kernels/reference.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/math_constants.h"

namespace ropeway::kernels {
namespace reference {

float SumLanes(const float (&lanes)[kLanes]) {
  float s[kLanes];
  for (int i = 0; i < kLanes; ++i) s[i] = lanes[i];
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) s[i] = s[i] + s[i + half];
  }
  return s[0];
}

float MaxIgnoringNan(float a, float b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return a > b ? a : b;
}

float Exp(float x) {
  if (x > RW_EXP_HI) return std::numeric_limits<float>::infinity();
  if (x < RW_EXP_LO) return 0.0F;
  if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
  // x = n * ln 2 + r; e^x = 2^n * e^r.
  const float t = std::fma(x, RW_LOG2E, RW_ROUND_MAGIC);
  const float n = t - RW_ROUND_MAGIC;
  float r = std::fma(n, -RW_LN2_HI, x);
  r = std::fma(n, -RW_LN2_LO, r);
  float p = RW_EXP_C6;
  p = std::fma(p, r, RW_EXP_C5);
  p = std::fma(p, r, RW_EXP_C4);
  p = std::fma(p, r, RW_EXP_C3);
  p = std::fma(p, r, RW_EXP_C2);
  p = std::fma(p, r, 1.0F);
  p = std::fma(p, r, 1.0F);
  // 2^n in two factors: n = 128 has no f32 of its own. At most the second one rounds.
  const int32_t whole = std::bit_cast<int32_t>(t) - RW_ROUND_MAGIC_BITS;
  const int32_t first = whole >> 1;
  const int32_t second = whole - first;
  p = p * std::bit_cast<float>(static_cast<uint32_t>(first + 127) << 23);
  return p * std::bit_cast<float>(static_cast<uint32_t>(second + 127) << 23);
}

float Log(float x) {
  if (std::isnan(x) || x < 0.0F) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0.0F) return -std::numeric_limits<float>::infinity();
  if (x > std::numeric_limits<float>::max()) return x;
  float exponent = 0.0F;
  if (x < std::numeric_limits<float>::min()) {  // Denormal: scale up, exactly.
    x = x * 0x1p+23F;
    exponent = -23.0F;
  }
  // x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
  const int32_t above = static_cast<int32_t>(std::bit_cast<uint32_t>(x) - RW_SQRT_HALF_BITS);
  const int32_t e = above >> 23;
  const uint32_t z = std::bit_cast<uint32_t>(x) - (static_cast<uint32_t>(e) << 23);
  const float f = std::bit_cast<float>(z) - 1.0F;
  exponent = exponent + static_cast<float>(e);
  float p = RW_LOG_C8;
  p = std::fma(p, f, RW_LOG_C7);
  p = std::fma(p, f, RW_LOG_C6);
  p = std::fma(p, f, RW_LOG_C5);
  p = std::fma(p, f, RW_LOG_C4);
  p = std::fma(p, f, RW_LOG_C3);
  p = std::fma(p, f, RW_LOG_C2);
  p = std::fma(p, f, RW_LOG_C1);
  p = std::fma(p, f, RW_LOG_C0);
  const float square = f * f;
  float low = square * f * p;
  low = std::fma(exponent, RW_LN2_LO, low);
  low = std::fma(square, -0.5F, low);
  return std::fma(exponent, RW_LN2_HI, f + low);
}

float SoftCap(float x, float cap) {
  // tanh(z) = 1 - 2 / (e^(2z) + 1).
  const float e = Exp(x * (2.0F / cap));
  return cap - (cap + cap) / (e + 1.0F);
}

namespace {

float Silu(float x) { return x / (1.0F + Exp(-x)); }

// 0.5 * x * (1 + tanh(z)) = x / (1 + e^(-2z)).
float GeluOf(float x) {
  const float slope = std::fma(x * x, RW_GELU_CUBIC, RW_GELU_LINEAR);
  return x / (1.0F + Exp(-(x * slope)));
}

// x times the normal distribution's share below x.
float ExactGeluOf(float x) {
  // Written so that NaN stays NaN.
  const float minus = 0.0F - x;
  const float positive = 0.0F > x ? 0.0F : x;
  const float magnitude = minus > x ? minus : x;
  const float a = RW_TAIL_LIMIT < magnitude ? RW_TAIL_LIMIT : magnitude;
  const float t = 1.0F / std::fma(a, RW_TAIL_SLOPE, 1.0F);
  float p = RW_TAIL_C8;
  p = std::fma(p, t, RW_TAIL_C7);
  p = std::fma(p, t, RW_TAIL_C6);
  p = std::fma(p, t, RW_TAIL_C5);
  p = std::fma(p, t, RW_TAIL_C4);
  p = std::fma(p, t, RW_TAIL_C3);
  p = std::fma(p, t, RW_TAIL_C2);
  p = std::fma(p, t, RW_TAIL_C1);
  p = std::fma(p, t, RW_TAIL_C0);
  const float tail = (p * t) * Exp(0.0F - (a * a) * 0.5F);
  return std::fma(0.0F - a, tail, positive);
}

void RmsNorm(const float* x, const float* weight, int n, float eps, float* y) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i % kLanes] = std::fma(x[i], x[i], lanes[i % kLanes]);
  const float mean = SumLanes(lanes) / static_cast<float>(n);
  const float scale = 1.0F / std::sqrt(mean + eps);
  for (int i = 0; i < n; ++i) y[i] = (x[i] * scale) * weight[i];
}

void LayerNorm(const float* x, const float* weight, const float* bias, int n, float eps, float* y) {
  float sums[kLanes] = {};
  for (int i = 0; i < n; ++i) sums[i % kLanes] = sums[i % kLanes] + x[i];
  const float mean = SumLanes(sums) / static_cast<float>(n);
  float squares[kLanes] = {};
  for (int i = 0; i < n; ++i) {
    const float d = x[i] - mean;
    squares[i % kLanes] = std::fma(d, d, squares[i % kLanes]);
  }
  const float variance = SumLanes(squares) / static_cast<float>(n);
  const float scale = 1.0F / std::sqrt(variance + eps);
  for (int i = 0; i < n; ++i) y[i] = std::fma((x[i] - mean) * scale, weight[i], bias[i]);
}

void Rope(float* x, int heads, int head_dim, int rope_dim, const float* cos_sin) {
  const int pairs = rope_dim / 2;
  for (int h = 0; h < heads; ++h) {
    float* head = x + static_cast<int64_t>(h) * head_dim;
    for (int i = 0; i < pairs; ++i) {
      const float c = cos_sin[i];
      const float s = cos_sin[pairs + i];
      const float x0 = head[2 * i];
      const float x1 = head[2 * i + 1];
      head[2 * i] = std::fma(x0, c, -(x1 * s));
      head[2 * i + 1] = std::fma(x0, s, x1 * c);
    }
  }
}

void RopeHalves(float* x, int heads, int head_dim, int rope_dim, const float* cos_sin) {
  const int pairs = rope_dim / 2;
  for (int h = 0; h < heads; ++h) {
    float* head = x + static_cast<int64_t>(h) * head_dim;
    for (int i = 0; i < pairs; ++i) {
      const float c = cos_sin[i];
      const float s = cos_sin[pairs + i];
      const float x0 = head[i];
      const float x1 = head[pairs + i];
      head[i] = std::fma(x0, c, -(x1 * s));
      head[pairs + i] = std::fma(x0, s, x1 * c);
    }
  }
}

void SwiGlu(const float* gate, const float* up, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = Silu(gate[i]) * up[i];
}

void GeGlu(const float* gate, const float* up, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = GeluOf(gate[i]) * up[i];
}

void SwiGluClamped(const float* gate, const float* up, int n, float* y) {
  for (int i = 0; i < n; ++i) {
    // Written so that NaN stays NaN.
    const float g = RW_CLAMPED_LIMIT < gate[i] ? RW_CLAMPED_LIMIT : gate[i];
    const float most = RW_CLAMPED_LIMIT < up[i] ? RW_CLAMPED_LIMIT : up[i];
    const float u = -RW_CLAMPED_LIMIT > most ? -RW_CLAMPED_LIMIT : most;
    y[i] = (u + 1.0F) * (g / (1.0F + Exp(-(g * RW_CLAMPED_ALPHA))));
  }
}

void Gelu(const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = GeluOf(x[i]);
}

void ExactGelu(const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = ExactGeluOf(x[i]);
}

void Add(float* x, const float* y, int n) {
  for (int i = 0; i < n; ++i) x[i] = x[i] + y[i];
}

void AddScaled(float* x, const float* y, float factor, int n) {
  for (int i = 0; i < n; ++i) x[i] = std::fma(factor, y[i], x[i]);
}

void ScaleBy(float* x, float factor, int n) {
  for (int i = 0; i < n; ++i) x[i] = x[i] * factor;
}

void SoftCapAll(float* x, float cap, int n) {
  for (int i = 0; i < n; ++i) x[i] = SoftCap(x[i], cap);
}

int32_t ArgMax(const float* x, int n) {
  int32_t best = -1;
  for (int i = 0; i < n; ++i) {
    if (std::isnan(x[i])) continue;
    if (best < 0 || x[i] > x[best]) best = i;
  }
  return best < 0 ? 0 : best;
}

float LogSumExp(const float* x, int n) {
  float max = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < n; ++i) max = MaxIgnoringNan(max, x[i]);
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i % kLanes] = lanes[i % kLanes] + Exp(x[i] - max);
  return max + Log(SumLanes(lanes));
}

void ExpWeights(const float* x, int n, float shift, float divisor, float least, float* y) {
  for (int i = 0; i < n; ++i) {
    const float e = (x[i] - shift) / divisor;
    y[i] = e >= least ? Exp(e) : 0.0F;
  }
}

}  // namespace
}  // namespace reference

const Kernels kReferenceKernels = {
    .name = "reference",
    .pack_rows = reference::PackRows,
    .matmul = reference::MatMul,
    .rms_norm = reference::RmsNorm,
    .layer_norm = reference::LayerNorm,
    .rope = reference::Rope,
    .rope_halves = reference::RopeHalves,
    .swiglu = reference::SwiGlu,
    .geglu = reference::GeGlu,
    .swiglu_clamped = reference::SwiGluClamped,
    .gelu = reference::Gelu,
    .exact_gelu = reference::ExactGelu,
    .add = reference::Add,
    .add_scaled = reference::AddScaled,
    .scale = reference::ScaleBy,
    .soft_cap = reference::SoftCapAll,
    .store_kv = reference::StoreKv,
    .attention = reference::Attention,
    .attention_merge = reference::AttentionMerge,
    .argmax = reference::ArgMax,
    .log_sum_exp = reference::LogSumExp,
    .exp_weights = reference::ExpWeights,
};

}  // namespace ropeway::kernels
