// Values that several of this room's tests use.
#ifndef ROPEWAY_EXECUTOR_TEST_VALUES_H_
#define ROPEWAY_EXECUTOR_TEST_VALUES_H_

#include <limits>

namespace ropeway::executor {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_TEST_VALUES_H_
