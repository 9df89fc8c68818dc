// Values that several of this room's tests use.
#ifndef ROPEWAY_EXECUTOR_TEST_VALUES_H_
#define ROPEWAY_EXECUTOR_TEST_VALUES_H_

#include <limits>

namespace ropeway {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_TEST_VALUES_H_
