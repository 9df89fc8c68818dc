// IEEE binary16 <-> binary32, bit by bit: the meaning of F16 in reference.cc and in the loader. The
// other tables use F16C, which does the same.
#ifndef ROPEWAY_KERNELS_HALF_H_
#define ROPEWAY_KERNELS_HALF_H_

#include <cstdint>

namespace ropeway {

// Exact. NaN stays NaN (made quiet).
float HalfToFloat(uint16_t half);

// Round to nearest even; beyond the range: infinity; NaN stays NaN (made quiet).
uint16_t FloatToHalf(float value);

}  // namespace ropeway

#endif  // ROPEWAY_KERNELS_HALF_H_
