#include "executor/row_packer.h"

#include <algorithm>

namespace ropeway {
namespace {

// The most bytes that `rows` packed rows need for any matrix of the model.
size_t MaxPackedBytes(const Model& model, int rows) {
  size_t bytes = PackedRowsBytes(model.output().type, rows, model.output().k);
  for (const LayerWeights& layer : model.layers()) {
    for (const Matrix* m :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      bytes = std::max(bytes, PackedRowsBytes(m->type, rows, m->k));
    }
  }
  return bytes;
}

}  // namespace

RowPacker::RowPacker(const Model& model, const Kernels& kernels, int max_rows)
    : kernels_(kernels),
      hidden_(model.config().hidden_size),
      eps_(model.config().norm_eps),
      norm_(static_cast<size_t>(kRowGroup) * static_cast<size_t>(hidden_)),
      packed_(MaxPackedBytes(model, max_rows)) {}

const std::byte* RowPacker::Pack(WeightType type, const float* x, int64_t stride, int rows, int k) {
  kernels_.pack_rows(type, x, stride, 0, rows, k, packed_.data());
  return packed_.data();
}

// One group at a time, so that its normalized rows are still in the first-level cache when packed.
const std::byte* RowPacker::NormAndPack(WeightType type, const float* x, int rows,
                                        const float* weight) {
  const size_t group_bytes = PackedRowsBytes(type, kRowGroup, hidden_);
  for (int r = 0; r < rows; r += kRowGroup) {
    const int count = std::min(kRowGroup, rows - r);
    for (int i = 0; i < count; ++i) {
      kernels_.rms_norm(x + static_cast<int64_t>(r + i) * hidden_, weight, hidden_, eps_,
                        norm_.data() + static_cast<int64_t>(i) * hidden_);
    }
    kernels_.pack_rows(type, norm_.data(), hidden_, 0, count, hidden_,
                       packed_.data() + static_cast<size_t>(r / kRowGroup) * group_bytes);
  }
  return packed_.data();
}

}  // namespace ropeway
