// Much memory in one piece, in large pages if the system has them.
#ifndef ROPEWAY_BASE_PAGE_ARENA_H_
#define ROPEWAY_BASE_PAGE_ARENA_H_

#include <cstddef>

#include "ropeway/status.h"

namespace ropeway::base {

// Owns its memory; movable. Thread rule: as for a plain array.
class PageArena {
 public:
  // The alignment of what lies in the arena (a cache line, a vector register).
  static constexpr size_t kAlignment = 64;
  static constexpr size_t Padded(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // Maps `bytes` zero bytes, none of them resident yet. kResourceExhausted if the system denies
  // them.
  static StatusOr<PageArena> Make(size_t bytes);

  PageArena() = default;  // Empty.
  ~PageArena();
  PageArena(PageArena&& other) noexcept;
  PageArena& operator=(PageArena&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_PAGE_ARENA_H_
