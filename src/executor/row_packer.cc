#include "executor/row_packer.h"

#include <algorithm>

namespace ropeway::executor {
namespace {

// The most bytes that `rows` packed rows need for any matrix of the model.
size_t MaxPackedBytes(const model::Model& model, int rows) {
  size_t bytes = kernels::PackedRowsBytes(model.output().type, rows, model.output().k);
  for (const model::LayerWeights& layer : model.layers()) {
    for (const kernels::Matrix* m :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      bytes = std::max(bytes, kernels::PackedRowsBytes(m->type, rows, m->k));
    }
  }
  return bytes;
}

}  // namespace

RowPacker::RowPacker(const model::Model& model, const kernels::Kernels& kernels, int max_rows)
    : kernels_(kernels),
      hidden_(model.config().hidden_size),
      eps_(model.config().norm_eps),
      norm_(static_cast<size_t>(kernels::kRowGroup) * static_cast<size_t>(hidden_)),
      packed_(MaxPackedBytes(model, max_rows)) {}

const std::byte* RowPacker::Pack(kernels::WeightType type, const float* x, int64_t stride, int rows,
                                 int k) {
  kernels_.pack_rows(type, x, stride, 0, rows, k, packed_.data());
  return packed_.data();
}

// One group at a time, so that its normalized rows are still in the first-level cache when packed.
const std::byte* RowPacker::NormAndPack(kernels::WeightType type, const float* x, int rows,
                                        const float* weight) {
  const size_t group_bytes = kernels::PackedRowsBytes(type, kernels::kRowGroup, hidden_);
  for (int r = 0; r < rows; r += kernels::kRowGroup) {
    const int count = std::min(kernels::kRowGroup, rows - r);
    for (int i = 0; i < count; ++i) {
      kernels_.rms_norm(x + static_cast<int64_t>(r + i) * hidden_, weight, hidden_, eps_,
                        norm_.data() + static_cast<int64_t>(i) * hidden_);
    }
    kernels_.pack_rows(type, norm_.data(), hidden_, 0, count, hidden_,
                       packed_.data() + static_cast<size_t>(r / kernels::kRowGroup) * group_bytes);
  }
  return packed_.data();
}

}  // namespace ropeway::executor
