#include "base/worker_team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ropeway::base {
namespace {

// One pause is 5 to 45 ns, depending on the machine.
// Within a Run phases last 1 us to some ms, and the other workers are usually at most a few us
// apart. If this is not enough, another process probably has the core of a worker: yield ours.
constexpr int kPhaseSpins = 2000;
// Between Runs: the engine needs some 10 us to schedule the next step.
constexpr int kIdleSpins = 3000;
constexpr int kYields = 4;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Round to nearest even, denormals kept, exceptions masked: the numerics are defined for this.
void SetDefaultFloatControl() {
#if defined(__x86_64__)
  _mm_setcsr(0x1F80);
#endif
}

}  // namespace

void WorkerTeam::Signal::WaitWhile(uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    sched_yield();
  }
  // With sequential consistency either Raise sees this sleeper, or the sleeper sees the raise.
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (value.load(std::memory_order_seq_cst) == old) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value), FUTEX_WAIT_PRIVATE, old, nullptr,
            nullptr, 0);
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void WorkerTeam::Signal::Raise() {
  value.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
            nullptr, 0);
  }
}

WorkerTeam::WorkerTeam(int workers) : workers_(workers) {
  threads_.reserve(static_cast<size_t>(workers - 1));
  try {
    for (int worker = 1; worker < workers; ++worker) {
      threads_.emplace_back([this, worker] { WorkerLoop(worker); });
    }
  } catch (...) {
    StopAndJoin();
    throw;
  }
}

WorkerTeam::~WorkerTeam() { StopAndJoin(); }

void WorkerTeam::StopAndJoin() {
  stop_ = true;
  start_.Raise();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::RunErased(Task task, void* context) {
  SetDefaultFloatControl();
  if (workers_ > 1) {
    task_ = task;
    context_ = context;
    start_.Raise();
  }
  task(context, 0);
  Barrier();
}

void WorkerTeam::WorkerLoop(int worker) {
  pthread_setname_np(pthread_self(), "ropeway-worker");
  for (uint32_t seen = 0;; ++seen) {
    start_.WaitWhile(seen, kIdleSpins);
    if (stop_) return;
    SetDefaultFloatControl();
    task_(context_, worker);
    Barrier();
  }
}

void WorkerTeam::Barrier() {
  if (workers_ == 1) return;
  const uint32_t generation = barrier_.value.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(workers_)) {
    arrived_.store(0, std::memory_order_relaxed);
    barrier_.Raise();
  } else {
    barrier_.WaitWhile(generation, kPhaseSpins);
  }
}

}  // namespace ropeway::base
