#include "model/portable_math.h"

#include <cmath>
#include <cstdint>

namespace ropeway {
namespace {

// ln 2 in two parts; the first has 33 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42fef00000p-1;
constexpr double kLn2Low = 0x1.473de6af278edp-34;

// pi / 2 in parts of 24 bits and a rest: a product of one of the first three with an integer below
// 2^28 is exact (Cody & Waite 1980, ch. 8).
constexpr double kHalfPi1 = 0x1.921fb40000000p+0;
constexpr double kHalfPi2 = 0x1.4442d00000000p-24;
constexpr double kHalfPi3 = 0x1.8469880000000p-48;
constexpr double kHalfPi4 = 0x1.8cc51701b839ap-72;

// Taylor's series of sine and cosine for |r| <= pi / 4; the first term left out is below 1e-18.
SinCos SmallSinCos(double r) {
  const double z = r * r;
  double sin = 0.0;
  double cos = 0.0;
  for (int n = 17; n >= 3; n -= 2) sin = (1.0 - sin) * (z / ((n - 1) * n));
  for (int n = 18; n >= 2; n -= 2) cos = (1.0 - cos) * (z / ((n - 1) * n));
  return {r - r * sin, 1.0 - cos};
}

}  // namespace

double PortableExp(double x) {
  const double k = std::rint(x / kLn2High);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0;
  for (int n = 16; n >= 1; --n) sum = 1.0 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

double PortableLog(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [1/2, 1)
  if (m < 0.7071067811865476) {
    m *= 2.0;
    --exponent;
  }
  // log m = 2 artanh s; s^2 < 0.03, so that s^25 is beyond a double's precision.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int n = 25; n >= 3; n -= 2) sum = z * (1.0 / n + sum);
  return exponent * kLn2High + (2.0 * s + (2.0 * s * sum + exponent * kLn2Low));
}

double PortablePow(double base, double exponent) {
  return PortableExp(exponent * PortableLog(base));
}

SinCos PortableSinCos(double x) {
  constexpr double kInverse = 0x1.45f306dc9c883p-1;  // 2 / pi
  const double n = std::rint(x * kInverse);
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3 - n * kHalfPi4;
  const SinCos small = SmallSinCos(r);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return small;
    case 1:
      return {small.cos, -small.sin};
    case 2:
      return {-small.sin, -small.cos};
    default:
      return {-small.cos, small.sin};
  }
}

}  // namespace ropeway
