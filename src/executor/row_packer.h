// The executor's scratch memory, and the packing of activation rows into the form that matrices are
// multiplied with.
#ifndef ROPEWAY_EXECUTOR_ROW_PACKER_H_
#define ROPEWAY_EXECUTOR_ROW_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "executor/weights.h"
#include "kernels/kernels.h"

namespace ropeway::executor {

// a * b, the number of elements of `a` rows of `b`.
constexpr size_t Product(int64_t a, int64_t b) {
  return static_cast<size_t>(a) * static_cast<size_t>(b);
}

// Rounds up to an odd number of cache lines: a stride of rows in floats. Rows that lie a multiple
// of 4 KiB apart (49,152 floats do) would compete for the same few sets of each cache.
constexpr int64_t OddLines(int64_t floats) {
  constexpr int64_t kLine = 16;
  return ((floats + kLine - 1) / kLine | 1) * kLine;
}

// A fixed-size array of plain values that begins at a cache line, not initialised.
template <typename T>
class AlignedArray {
  static_assert(std::is_trivial_v<T>);

 public:
  AlignedArray() = default;
  // Throws std::bad_alloc. The system provides pages when they are first written.
  explicit AlignedArray(size_t size)
      : data_(static_cast<T*>(::operator new (size * sizeof(T), std::align_val_t{kAlignment}))) {}

  T* data() const { return data_.get(); }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<T, Free> data_;
};

// Thread rule: one per worker. The result of a call is valid until the next call.
class RowPacker {
 public:
  // For at most `max_rows` rows, and any of the model's matrices. Both must outlive it.
  RowPacker(const Weights& weights, const kernels::Kernels& kernels, int max_rows);

  // x: [rows][stride], k elements of each used.
  const std::byte* Pack(kernels::WeightType type, const float* x, int64_t stride, int rows, int k);

  // The model's norm of one row of [hidden]. `bias`: of LayerNorm only.
  void Norm(const float* x, const float* weight, const float* bias, float* y) const;

  // The norm of each row first, unless `weight` is nullptr. x: [rows][hidden].
  const std::byte* NormAndPack(kernels::WeightType type, const float* x, int rows,
                               const float* weight, const float* bias = nullptr);

 private:
  const kernels::Kernels& kernels_;
  const model::NormKind kind_;
  const int hidden_;
  const float eps_;
  AlignedArray<float> norm_;  // [kRowGroup][hidden]
  AlignedArray<std::byte> packed_;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_ROW_PACKER_H_
