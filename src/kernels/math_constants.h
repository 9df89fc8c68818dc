// Constants of Ropeway's own exp and log (docs/numerics.md), used by every table of kernels. Macros
// only: files of one instruction set include this.
#ifndef ROPEWAY_KERNELS_MATH_CONSTANTS_H_
#define ROPEWAY_KERNELS_MATH_CONSTANTS_H_

// Adding and subtracting 1.5 * 2^23 rounds |x| < 2^22 to an integer, to nearest even.
#define RW_ROUND_MAGIC 12582912.0F
#define RW_ROUND_MAGIC_BITS 0x4B400000

#define RW_LOG2E 0x1.715476p+0F
// ln 2 = high + low; high has 13 bits, so that n * high is exact for |n| < 2^11.
#define RW_LN2_HI 0x1.62e4p-1F
#define RW_LN2_LO 0x1.7f7d1cp-20F

// exp: beyond these, +infinity and +0. Low is ln(2^-126): results are never denormal by design.
#define RW_EXP_HI 0x1.62e42ep+6F
#define RW_EXP_LO (-0x1.5d589ep+6F)

// (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2 (Chebyshev interpolation, own fit).
#define RW_EXP_C2 0x1.000000p-1F
#define RW_EXP_C3 0x1.5554dcp-3F
#define RW_EXP_C4 0x1.555518p-5F
#define RW_EXP_C5 0x1.120becp-7F
#define RW_EXP_C6 0x1.6d1186p-10F

// (log(1 + f) - f + f^2 / 2) / f^3 on sqrt(1/2) - 1 <= f <= sqrt(2) - 1 (own fit as above).
#define RW_LOG_C0 0x1.555554p-2F
#define RW_LOG_C1 (-0x1.fffffcp-3F)
#define RW_LOG_C2 0x1.999d5ap-3F
#define RW_LOG_C3 (-0x1.555b4ap-3F)
#define RW_LOG_C4 0x1.23d21ap-3F
#define RW_LOG_C5 (-0x1.fcf4c6p-4F)
#define RW_LOG_C6 0x1.dea282p-4F
#define RW_LOG_C7 (-0x1.d635bcp-4F)
#define RW_LOG_C8 0x1.1d8ea6p-4F
// GELU: x / (1 + exp(-x * (linear + cubic * x^2))), linear = 2 sqrt(2 / pi), cubic = 0.044715 times
// that.
#define RW_GELU_LINEAR 0x1.988454p+0F
#define RW_GELU_CUBIC 0x1.2444f2p-4F
// The exact GELU, max(x, 0) - a * tail(a) with a = |x|, at most LIMIT: tail(a) = P(t) * t *
// e^(-a^2 / 2) is the normal distribution's upper tail, t = 1 / (1 + SLOPE * a). P: own fit as
// above. From LIMIT on the tail is +0.
#define RW_TAIL_LIMIT 14.0F
#define RW_TAIL_SLOPE 0x1.147ae2p-2F
#define RW_TAIL_C8 0x1.dce3b4p-6F
#define RW_TAIL_C7 (-0x1.04977ep-3F)
#define RW_TAIL_C6 0x1.5f1e54p-3F
#define RW_TAIL_C5 (-0x1.23b116p-4F)
#define RW_TAIL_C4 0x1.bf9962p-4F
#define RW_TAIL_C3 0x1.247ab6p-4F
#define RW_TAIL_C2 0x1.a1b62ap-4F
#define RW_TAIL_C1 0x1.b8656ep-4F
#define RW_TAIL_C0 0x1.b93acep-4F
// gpt-oss's SwiGLU.
#define RW_CLAMPED_LIMIT 7.0F
#define RW_CLAMPED_ALPHA 1.702F

// The bits of sqrt(1/2), rounded down: x = 2^e * z with z in [sqrt(1/2), sqrt(2)).
#define RW_SQRT_HALF_BITS 0x3F3504F3U

// Quantisation: a block whose largest magnitude is below 2^-100 counts as zero, so that 127 / amax
// is finite; one with an infinity or NaN gets the scale NaN.
#define RW_QUANT_MIN_BITS 0x0D800000
#define RW_INF_BITS 0x7F800000
#define RW_NAN_BITS 0x7FC00000

#endif  // ROPEWAY_KERNELS_MATH_CONSTANTS_H_
