// Turns rows of activations into the packed form that matrices are multiplied with.
#ifndef ROPEWAY_EXECUTOR_ROW_PACKER_H_
#define ROPEWAY_EXECUTOR_ROW_PACKER_H_

#include <cstddef>
#include <cstdint>

#include "executor/aligned_array.h"
#include "kernels/kernels.h"
#include "model/model.h"

namespace ropeway {

// Thread rule: one per worker. What a call returns is valid until the next.
class RowPacker {
 public:
  // For at most `max_rows` rows, and any of the model's matrices. Both must outlive it.
  RowPacker(const Model& model, const Kernels& kernels, int max_rows);

  // x: [rows][stride], k elements of each used.
  const std::byte* Pack(WeightType type, const float* x, int64_t stride, int rows, int k);

  // RMSNorm of each row first. x: [rows][hidden], weight: [hidden].
  const std::byte* NormAndPack(WeightType type, const float* x, int rows, const float* weight);

 private:
  const Kernels& kernels_;
  const int hidden_;
  const float eps_;
  AlignedArray<float> norm_;  // [kRowGroup][hidden]
  AlignedArray<std::byte> packed_;
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_ROW_PACKER_H_
