#include "base/page_arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <utility>

namespace ropeway::base {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

StatusOr<PageArena> PageArena::Make(size_t bytes) {
  if (bytes == 0) return PageArena();
  const Status no_memory(StatusCode::kResourceExhausted,
                         fmt::format("no memory for {} bytes", bytes));
  // One large page more than needed, so that the arena can begin at the start of one; the excess
  // before and after it is unmapped.
  size_t reserved = 0;
  if (__builtin_add_overflow(bytes, kLargePage, &reserved)) return no_memory;
  void* map = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return no_memory;
  auto* begin = static_cast<std::byte*>(map);
  const size_t head = (kLargePage - reinterpret_cast<uintptr_t>(begin) % kLargePage) % kLargePage;
  constexpr size_t kPage = 4096;  // x86-64's.
  const size_t kept = (bytes + kPage - 1) / kPage * kPage;
  if (head > 0) munmap(begin, head);
  const size_t tail_begin = head + kept;
  if (tail_begin < reserved) munmap(begin + tail_begin, reserved - tail_begin);
  PageArena arena;
  arena.data_ = begin + head;
  arena.bytes_ = bytes;
  // Only advice: it saves address translations in each sweep over the memory.
  madvise(arena.data_, bytes, MADV_HUGEPAGE);
  return arena;
}

PageArena::~PageArena() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

PageArena::PageArena(PageArena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PageArena& PageArena::operator=(PageArena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace ropeway::base
