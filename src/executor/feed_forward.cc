#include "executor/feed_forward.h"

#include <algorithm>

namespace ropeway::executor {
namespace {

// `y` may be `gate`.
void Activate(const kernels::Kernels& kernels, model::Activation activation, const float* gate,
              const float* up, int n, float* y) {
  switch (activation) {
    case model::Activation::kSwiGlu:
      return kernels.swiglu(gate, up, n, y);
    case model::Activation::kGeGlu:
      return kernels.geglu(gate, up, n, y);
    case model::Activation::kSwiGluClamped:
      return kernels.swiglu_clamped(gate, up, n, y);
    case model::Activation::kGelu:
      return kernels.gelu(up, n, y);
  }
}

}  // namespace

void AddBias(const kernels::Kernels& kernels, const float* bias, int rows, int cols, float* y,
             int64_t stride) {
  if (bias == nullptr) return;
  for (int r = 0; r < rows; ++r) kernels.add(y + r * stride, bias, cols);
}

void MultiplyPanels(const kernels::Kernels& kernels, const kernels::Matrix& m, const float* bias,
                    const std::byte* packed, int rows, int begin, int end, float* y,
                    int64_t stride) {
  const kernels::Matrix part = m.PanelRange(begin, end);
  kernels.matmul(part, packed, rows, 0, end - begin, y, stride);
  if (bias != nullptr) {
    AddBias(kernels, bias + begin * kernels::kPanelCols, rows, part.n, y, stride);
  }
}

void ActivateRows(const kernels::Kernels& kernels, model::Activation activation, int rows, int cols,
                  float* gate, const float* up, int64_t stride) {
  for (int r = 0; r < rows; ++r) {
    float* y = gate + r * stride;
    Activate(kernels, activation, y, up + r * stride, cols, y);
  }
}

void PackColumns(const kernels::Kernels& kernels, const kernels::Matrix& m, const float* x,
                 int64_t stride, int rows, int col, int cols, std::byte* packed) {
  const size_t group_bytes = kernels::PackedRowsBytes(m.type, kernels::kRowGroup, m.k);
  for (int r = 0; r < rows; r += kernels::kRowGroup) {
    kernels.pack_rows(m.type, x + r * stride, stride, 0, std::min(kernels::kRowGroup, rows - r),
                      cols,
                      packed + static_cast<size_t>(r / kernels::kRowGroup) * group_bytes +
                          kernels::PackedRowsBytes(m.type, kernels::kRowGroup, col));
  }
}

}  // namespace ropeway::executor
