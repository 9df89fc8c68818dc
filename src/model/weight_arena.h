// The memory of all weights of a model, in large pages if the system has them.
#ifndef ROPEWAY_MODEL_WEIGHT_ARENA_H_
#define ROPEWAY_MODEL_WEIGHT_ARENA_H_

#include <cstddef>

#include "ropeway/status.h"

namespace ropeway::model {

// Owns its memory; movable. Thread rule: as for a plain array.
class WeightArena {
 public:
  // Alignment of every tensor in the arena (a cache line, a vector register).
  static constexpr size_t kAlignment = 64;
  static constexpr size_t Padded(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // Maps `bytes` zero bytes, none of them resident yet. kResourceExhausted if the system denies
  // them.
  static StatusOr<WeightArena> Make(size_t bytes);

  WeightArena() = default;  // Empty.
  ~WeightArena();
  WeightArena(WeightArena&& other) noexcept;
  WeightArena& operator=(WeightArena&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_WEIGHT_ARENA_H_
