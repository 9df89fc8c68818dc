// A function that runs in pieces, on a stack of its own.
#ifndef ROPEWAY_BASE_FIBER_H_
#define ROPEWAY_BASE_FIBER_H_

#include <functional>
#include <memory>

namespace ropeway::base {

// For work that cannot be written as steps, such as an interpreter that calls itself: its function
// pauses wherever it is, which holds no thread, and goes on there, on this thread or another.
//
// The function must not pause in a catch block or a destructor, and must not keep across a pause
// what belongs to the thread: a lock, or the address of a thread_local variable.
//
// Thread rule: one thread at a time.
class Fiber {
 public:
  // Leaves the piece; returns when the next one begins. True: the fiber is being destroyed, so the
  // function has to end without further work; its pauses are over.
  using PauseFn = std::function<bool()>;

  // Deep recursion has room for hundreds of levels of a kilobyte; memory is taken as it is used.
  // Throws std::bad_alloc.
  explicit Fiber(std::function<void(const PauseFn& pause)> function);
  // Has the function end, if it has begun.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the function to its next pause. Returns whether it has ended, and then is not called
  // again; throws what the function threw, which is its end too.
  bool Run();

 private:
  class Stack;
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_FIBER_H_
