#include "server/test_failing_new.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Made before there are threads: ThreadSanitizer does not see the lock with which spdlog's library,
// which is not instrumented, makes it when it is first used.
[[maybe_unused]] const auto* const kLogger = spdlog::default_logger_raw();

std::atomic<const char*> failing_thread{nullptr};
std::atomic<int> made{0};
std::atomic<int> fails_at{0};
std::atomic<std::size_t> least{0};

bool Fails(std::size_t size) {
  const char* name = failing_thread.load();
  if (name == nullptr || size < least) return false;
  char mine[16] = "";
  pthread_getname_np(pthread_self(), mine, sizeof(mine));
  if (std::strncmp(mine, name, std::strlen(name)) != 0) return false;
  return ++made == fails_at;
}

void* AllocateOrNull(std::size_t size) {
  return Fails(size) ? nullptr : std::malloc(size == 0 ? 1 : size);
}

void* Allocate(std::size_t size) {
  void* memory = AllocateOrNull(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace ropeway::server {

int FailAllocation(const char* thread_name, int n, std::size_t least_bytes) {
  failing_thread = nullptr;
  const int count = made.exchange(0);
  fails_at = n;
  least = least_bytes;
  failing_thread = n > 0 ? thread_name : nullptr;
  return count;
}

}  // namespace ropeway::server

// All that go through malloc, so that sanitizers see each pair of them match.
void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return AllocateOrNull(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return AllocateOrNull(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
