// A fixed-size array of plain values at a cache line's boundary, not initialised.
#ifndef ROPEWAY_EXECUTOR_ALIGNED_ARRAY_H_
#define ROPEWAY_EXECUTOR_ALIGNED_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace ropeway {

// The elements of `a` rows of `b`.
constexpr size_t Product(int64_t a, int64_t b) {
  return static_cast<size_t>(a) * static_cast<size_t>(b);
}

// The next number of floats that is an odd number of cache lines: a stride for rows. Rows that lie
// a multiple of 4 KiB apart (49,152 floats do) would all want the same few sets of each cache.
constexpr int64_t OddLines(int64_t floats) {
  constexpr int64_t kLine = 16;
  return ((floats + kLine - 1) / kLine | 1) * kLine;
}

template <typename T>
class AlignedArray {
  static_assert(std::is_trivial_v<T>);

 public:
  AlignedArray() = default;
  // Throws std::bad_alloc. Pages are taken from the system only when they are first written.
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

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_ALIGNED_ARRAY_H_
