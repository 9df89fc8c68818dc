// What the feed-forward networks of all kinds have in common.
#ifndef ROPEWAY_EXECUTOR_FEED_FORWARD_H_
#define ROPEWAY_EXECUTOR_FEED_FORWARD_H_

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "model/model.h"

namespace ropeway::executor {

// Panels of gate and up that are multiplied before their activation combines them: a tile's rows by
// so many panels stay in the first two caches. Fewer rows than kFewRows are bound by memory: they
// stream all of gate, then all of up, which is 5 to 11 % faster than alternating.
inline constexpr int kFfnPanels = 8;
inline constexpr int kFewRows = 8;
inline constexpr int kBlockPanels = 2;  // Panels whose features make one quantisation block.

// Whether rows that are packed for one of the matrices serve the other.
inline bool SamePacking(const kernels::Matrix& a, const kernels::Matrix& b) {
  return kernels::RowPackingOf(a.type) == kernels::RowPackingOf(b.type);
}

// y[rows][stride] += bias, of `cols` elements; nullptr: none.
void AddBias(const kernels::Kernels& kernels, const float* bias, int rows, int cols, float* y,
             int64_t stride);

// y[rows][stride] = the features of panels [begin, end) of the matrix, with their bias.
void MultiplyPanels(const kernels::Kernels& kernels, const kernels::Matrix& m, const float* bias,
                    const std::byte* packed, int rows, int begin, int end, float* y,
                    int64_t stride);

// Combines `cols` columns of gate and up, [rows][stride], in `gate`.
void ActivateRows(const kernels::Kernels& kernels, model::Activation activation, int rows, int cols,
                  float* gate, const float* up, int64_t stride);

// Packs columns [col, col + cols) of the rows that `m` will be multiplied with.
void PackColumns(const kernels::Kernels& kernels, const kernels::Matrix& m, const float* x,
                 int64_t stride, int rows, int col, int cols, std::byte* packed);

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_FEED_FORWARD_H_
