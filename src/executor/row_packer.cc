#include "executor/row_packer.h"

#include <algorithm>

namespace ropeway::executor {
namespace {

// The most bytes that `rows` packed rows need for any matrix of the model.
size_t MaxPackedBytes(const Weights& weights, int rows) {
  size_t bytes = kernels::PackedRowsBytes(weights.output().type, rows, weights.output().k);
  for (const LayerWeights& layer : weights.layers()) {
    ForEachMatrix(layer, [&](const kernels::Matrix& m) {
      bytes = std::max(bytes, kernels::PackedRowsBytes(m.type, rows, m.k));
    });
  }
  return bytes;
}

}  // namespace

RowPacker::RowPacker(const Weights& weights, const kernels::Kernels& kernels, int max_rows)
    : kernels_(kernels),
      kind_(weights.config().norm),
      hidden_(weights.config().hidden_size),
      eps_(weights.config().norm_eps),
      norm_(static_cast<size_t>(kernels::kRowGroup) * static_cast<size_t>(hidden_)),
      packed_(MaxPackedBytes(weights, max_rows)) {}

const std::byte* RowPacker::Pack(kernels::WeightType type, const float* x, int64_t stride, int rows,
                                 int k) {
  kernels_.pack_rows(type, x, stride, 0, rows, k, packed_.data());
  return packed_.data();
}

void RowPacker::Norm(const float* x, const float* weight, const float* bias, float* y) const {
  switch (kind_) {
    case model::NormKind::kRms:
      return kernels_.rms_norm(x, weight, hidden_, eps_, y);
    case model::NormKind::kLayer:
      return kernels_.layer_norm(x, weight, bias, hidden_, eps_, y);
  }
}

// One group at a time, so that its normalized rows are still in the first-level cache when packed.
const std::byte* RowPacker::NormAndPack(kernels::WeightType type, const float* x, int rows,
                                        const float* weight, const float* bias) {
  if (weight == nullptr) return Pack(type, x, hidden_, rows, hidden_);
  const size_t group_bytes = kernels::PackedRowsBytes(type, kernels::kRowGroup, hidden_);
  for (int r = 0; r < rows; r += kernels::kRowGroup) {
    const int count = std::min(kernels::kRowGroup, rows - r);
    for (int i = 0; i < count; ++i) {
      Norm(x + static_cast<int64_t>(r + i) * hidden_, weight, bias,
           norm_.data() + static_cast<int64_t>(i) * hidden_);
    }
    kernels_.pack_rows(type, norm_.data(), hidden_, 0, count, hidden_,
                       packed_.data() + static_cast<size_t>(r / kernels::kRowGroup) * group_bytes);
  }
  return packed_.data();
}

}  // namespace ropeway::executor
