#include "engine/test_failing_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> armed{false};
std::atomic<int64_t> seen{0};  // Allocations since it was armed.
std::atomic<int64_t> first{0};
std::atomic<int64_t> last{0};
std::atomic<size_t> least{0};
thread_local int exempt = 0;

bool Fails(size_t size) {
  if (!armed.load(std::memory_order_relaxed) || exempt > 0 || size < least.load()) return false;
  const int64_t n = ++seen;
  return n >= first.load() && n <= last.load();
}

void* AllocateOrNull(size_t size) {
  return Fails(size) ? nullptr : std::malloc(size > 0 ? size : 1);
}

void* Allocate(size_t size) {
  void* memory = AllocateOrNull(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All that go through malloc, so that sanitizers see each pair of them match. The aligned ones stay
// as they are.
void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return AllocateOrNull(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return AllocateOrNull(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace ropeway::engine {

FailingNew::FailingNew(int64_t n, int64_t count, size_t least_bytes) {
  least = least_bytes;
  ::seen = 0;
  first = n;
  last = n + count - 1;
  armed = true;
}

FailingNew::~FailingNew() { armed = false; }

bool FailingNew::fired() const { return ::seen.load() >= first.load(); }

int64_t FailingNew::seen() const { return ::seen.load(); }

NeverFailingNew::NeverFailingNew() { ++exempt; }
NeverFailingNew::~NeverFailingNew() { --exempt; }

}  // namespace ropeway::engine
