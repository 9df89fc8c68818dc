// What makes an embedding of a sum of hidden states.
#ifndef ROPEWAY_KERNELS_POOLING_H_
#define ROPEWAY_KERNELS_POOLING_H_

#include <cstdint>
#include <span>

namespace ropeway::kernels {

// Makes the mean of a sum of `count` vectors, a division in float for each element; with
// `normalize`, divides each by the vector's length, whose squares are added in double, in order
// (docs/numerics.md). A vector of zeros stays as it is.
void FinishPooling(int32_t count, bool normalize, std::span<float> sum);

}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_POOLING_H_
