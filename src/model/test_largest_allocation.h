// For tests: the largest single allocation that this program asked operator new for.
#ifndef ROPEWAY_MODEL_TEST_LARGEST_ALLOCATION_H_
#define ROPEWAY_MODEL_TEST_LARGEST_ALLOCATION_H_

#include <cstddef>

namespace ropeway::model {

// Bytes of the largest allocation since the last call. 0 under AddressSanitizer, which has its own
// operator new.
size_t TakeLargestAllocation();

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_TEST_LARGEST_ALLOCATION_H_
