// Elementary functions in plain double arithmetic: the same bits on every machine, where the C
// library would choose a variant by CPU.
#ifndef ROPEWAY_MODEL_PORTABLE_MATH_H_
#define ROPEWAY_MODEL_PORTABLE_MATH_H_

namespace ropeway {

// e^x, to about 1e-15 relative. REQUIRES: |x| <= 700.
double PortableExp(double x);

// The natural logarithm, to about 1e-15 relative. REQUIRES: x is finite, normal and > 0.
double PortableLog(double x);

// base^exponent. REQUIRES: base as for PortableLog; |exponent * log(base)| <= 700.
double PortablePow(double base, double exponent);

struct SinCos {
  double sin;
  double cos;
};

// Both to about 1e-15 absolute. REQUIRES: |x| < 2^28.
SinCos PortableSinCos(double x);

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_PORTABLE_MATH_H_
