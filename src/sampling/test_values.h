// Values that several of this room's tests use.
#ifndef ROPEWAY_SAMPLING_TEST_VALUES_H_
#define ROPEWAY_SAMPLING_TEST_VALUES_H_

#include <limits>

namespace ropeway::sampling {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace ropeway::sampling

#endif  // ROPEWAY_SAMPLING_TEST_VALUES_H_
