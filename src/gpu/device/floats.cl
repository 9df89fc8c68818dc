// Sums, exp and their like, each operation as src/kernels/reference.cc has it.

#define LANE_SUMS 16  // Virtual lanes of every sum over elements.

DEVICE int IsNan(float x) { return (AS_UINT(x) & 0x7FFFFFFFu) > 0x7F800000u; }

// The fixed tree over 16 sums, in place.
DEVICE float SumLanes(float *s) {
  for (int half_ = LANE_SUMS / 2; half_ > 0; half_ /= 2) {
    for (int i = 0; i < half_; ++i) s[i] = s[i] + s[i + half_];
  }
  return s[0];
}

DEVICE float MaxIgnoringNan(float a, float b) {
  if (IsNan(a)) return b;
  if (IsNan(b)) return a;
  return a > b ? a : b;
}

DEVICE float Exp(float x) {
  if (x > RW_EXP_HI) return AS_FLOAT(RW_INF_BITS);
  if (x < RW_EXP_LO) return 0.0f;
  if (IsNan(x)) return AS_FLOAT(RW_NAN_BITS);
  const float t = FMA(x, RW_LOG2E, RW_ROUND_MAGIC);
  const float n = t - RW_ROUND_MAGIC;
  float r = FMA(n, -RW_LN2_HI, x);
  r = FMA(n, -RW_LN2_LO, r);
  float p = RW_EXP_C6;
  p = FMA(p, r, RW_EXP_C5);
  p = FMA(p, r, RW_EXP_C4);
  p = FMA(p, r, RW_EXP_C3);
  p = FMA(p, r, RW_EXP_C2);
  p = FMA(p, r, 1.0f);
  p = FMA(p, r, 1.0f);
  const int whole = (int)AS_UINT(t) - RW_ROUND_MAGIC_BITS;
  const int first = whole >> 1;
  const int second = whole - first;
  p = p * AS_FLOAT((uint)(first + 127) << 23);
  return p * AS_FLOAT((uint)(second + 127) << 23);
}

DEVICE float SoftCap(float x, float cap) {
  const float e = Exp(x * (2.0f / cap));
  return cap - (cap + cap) / (e + 1.0f);
}

// IEEE binary16 to binary32: exact, without branches. A number's bits, moved to where binary32 has them, are the number
// times 2^-112, also of a denormal one.
DEVICE float HalfToFloat(uint h) {
#ifdef __CUDA_ARCH__
  float x;  // By one instruction, where that can be asked for.
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((ushort)h));
  return x;
#else
  const uint magnitude = AS_UINT(AS_FLOAT((h & 0x7FFFu) << 13) * 0x1p112f);
  const uint not_finite = (h & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u;
  return AS_FLOAT(magnitude | not_finite | (h & 0x8000u) << 16);
#endif
}

// And back, rounded to nearest even.
DEVICE uint FloatToHalf(float value) {
  const uint bits = AS_UINT(value);
  const uint sign = (bits >> 16) & 0x8000u;
  const uint magnitude = bits & 0x7FFFFFFFu;
  uint h = 0;
  if (magnitude > 0x7F800000u) {
    h = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  } else if (magnitude >= 0x477FF000u) {
    h = 0x7C00u;
  } else if (magnitude >= 0x38800000u) {
    h = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude > 0x33000000u) {
    const uint shift = 126 - (magnitude >> 23);
    const uint mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
    h = (mantissa + (1u << (shift - 1)) - 1 + ((mantissa >> shift) & 1u)) >> shift;
  }
  return sign | h;
}

// Round to nearest, ties to even. REQUIRES: |x| < 2^22.
DEVICE int RoundToInt(float x) { return (int)AS_UINT(x + RW_ROUND_MAGIC) - RW_ROUND_MAGIC_BITS; }

// The scale of elements that share one, of which `max_bits` is the largest magnitude, and the factor that makes them
// integers; 0 where they are all zero then.
DEVICE float QuantScale(uint max_bits, float *inverse) {
  *inverse = 0.0f;
  if (max_bits >= RW_INF_BITS) return AS_FLOAT(RW_NAN_BITS);
  if (max_bits < RW_QUANT_MIN_BITS) return 0.0f;
  const float most = AS_FLOAT(max_bits);
  *inverse = 127.0f / most;
  return most / 127.0f;
}
