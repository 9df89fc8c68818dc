#include "base/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define ROPEWAY_FIBER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define ROPEWAY_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROPEWAY_FIBER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define ROPEWAY_FIBER_TSAN 1
#endif
#endif

#ifdef ROPEWAY_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef ROPEWAY_FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace ropeway::base {
namespace {

// As the threads' own stacks are by default. With sanitizers a frame takes several times as much.
constexpr size_t kStackBytes = size_t{8} << 20;

}  // namespace

// Memory for a stack, with a page below it that nothing may touch.
class Fiber::Stack {
 public:
  Stack() : guard_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* const memory = mmap(nullptr, kStackBytes + guard_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    // A huge page would cost more than most fibers do.
    (void)madvise(memory_, kStackBytes + guard_, MADV_NOHUGEPAGE);
    if (mprotect(memory_, guard_, PROT_NONE) == 0) return;
    munmap(memory_, kStackBytes + guard_);
    throw std::bad_alloc();
  }
  ~Stack() { munmap(memory_, kStackBytes + guard_); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  void* bottom() const { return memory_ + guard_; }

 private:
  const size_t guard_;
  std::byte* memory_ = nullptr;
};

struct Fiber::State {
  explicit State(std::function<void(const PauseFn&)> its_function)
      : function(std::move(its_function)), pause([this] { return Pause(); }) {
    if (getcontext(&inside) != 0) throw std::bad_alloc();
    inside.uc_stack.ss_sp = stack.bottom();
    inside.uc_stack.ss_size = kStackBytes;
    inside.uc_link = nullptr;
    // makecontext passes integers alone: the pointer goes as two halves.
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&inside, reinterpret_cast<void (*)()>(&State::Main), 2,
                static_cast<unsigned>(uint64_t{self} >> 32U), static_cast<unsigned>(self));
#ifdef ROPEWAY_FIBER_TSAN
    tsan_inside = __tsan_create_fiber(0);
#endif
  }
  ~State() {
#ifdef ROPEWAY_FIBER_TSAN
    __tsan_destroy_fiber(tsan_inside);
#endif
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static void Main(unsigned high, unsigned low) {
    const auto self = static_cast<uintptr_t>((uint64_t{high} << 32U) | low);
    reinterpret_cast<State*>(self)->Begin();
  }

  // Never returns: the last switch is to the outside.
  void Begin() {
    EnteredInside(nullptr);
    try {
      function(pause);
    } catch (...) {
      thrown = std::current_exception();
    }
    ended = true;
    SwitchOutside();
  }

  bool Pause() {
    if (!destroyed) SwitchOutside();
    return destroyed;
  }

  // The sanitizers are told of each switch: they know one stack for each thread.
  void SwitchInside() {
#ifdef ROPEWAY_FIBER_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack.bottom(), kStackBytes);
#endif
#ifdef ROPEWAY_FIBER_TSAN
    tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_inside, 0);
#endif
    swapcontext(&outside, &inside);
#ifdef ROPEWAY_FIBER_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  void SwitchOutside() {
    void* fake = nullptr;
#ifdef ROPEWAY_FIBER_ASAN
    // Without `fake` the fiber's own goes away.
    __sanitizer_start_switch_fiber(ended ? nullptr : &fake, asan_outside, asan_outside_bytes);
#endif
#ifdef ROPEWAY_FIBER_TSAN
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
    swapcontext(&inside, &outside);
    EnteredInside(fake);
  }

  void EnteredInside([[maybe_unused]] void* fake) {
#ifdef ROPEWAY_FIBER_ASAN
    __sanitizer_finish_switch_fiber(fake, &asan_outside, &asan_outside_bytes);
#endif
  }

  const std::function<void(const PauseFn&)> function;
  const PauseFn pause;
  Stack stack;
  ucontext_t inside{};
  ucontext_t outside{};
  bool begun = false;
  bool ended = false;
  bool destroyed = false;
  std::exception_ptr thrown;
#ifdef ROPEWAY_FIBER_ASAN
  const void* asan_outside = nullptr;
  size_t asan_outside_bytes = 0;
#endif
#ifdef ROPEWAY_FIBER_TSAN
  void* tsan_inside = nullptr;
  void* tsan_outside = nullptr;
#endif
};

Fiber::Fiber(std::function<void(const PauseFn& pause)> function)
    : state_(std::make_unique<State>(std::move(function))) {}

Fiber::~Fiber() {
  state_->destroyed = true;
  if (state_->begun && !state_->ended) state_->SwitchInside();
}

bool Fiber::Run() {
  state_->begun = true;
  state_->SwitchInside();
  if (state_->thrown) std::rethrow_exception(std::exchange(state_->thrown, nullptr));
  return state_->ended;
}

}  // namespace ropeway::base
