// A fixed team of threads that compute together; the calling thread is worker 0. Between the phases
// of a Run, and shortly after it, workers spin (waking a sleeping thread costs 15 us and more, a
// phase often less); then they sleep, so that an idle team uses no CPU.
#ifndef ROPEWAY_BASE_WORKER_TEAM_H_
#define ROPEWAY_BASE_WORKER_TEAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace ropeway::base {

// Thread rule: Run and the destructor from one thread at a time; Barrier only inside a Run.
class WorkerTeam {
 public:
  // Starts `workers` - 1 threads. REQUIRES: workers >= 1. Throws std::system_error if a thread
  // cannot be started.
  explicit WorkerTeam(int workers);
  // Joins the threads. REQUIRES: no Run is active.
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return workers_; }

  // Calls fn(worker) once for each worker in [0, size()), each on its own thread, and returns when
  // all calls have; their writes are visible to the caller. Each thread first sets floating-point
  // control to its default. REQUIRES: fn does not throw; not called from inside a Run.
  template <typename Fn>
  void Run(Fn&& fn) {
    static_assert(std::is_invocable_v<Fn&, int>);
    RunErased([](void* f, int worker) { (*static_cast<std::remove_reference_t<Fn>*>(f))(worker); },
              const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

  // Waits until every worker of the current Run has called Barrier the same number of times;
  // earlier writes of any of them are visible to all.
  void Barrier();

 private:
  using Task = void (*)(void* context, int worker);

  // A counter that one side raises and others wait for, on its own cache line.
  struct alignas(64) Signal {
    std::atomic<uint32_t> value{0};
    std::atomic<uint32_t> sleepers{0};

    // Returns when value != old: spins for at most `spins` pauses, then sleeps.
    void WaitWhile(uint32_t old, int spins);
    // Increments value and wakes sleeping threads.
    void Raise();
  };

  void RunErased(Task task, void* context);
  void WorkerLoop(int worker);
  void StopAndJoin();

  const int workers_;
  Signal start_;    // Raised once per Run, and once to stop.
  Signal barrier_;  // Raised once per completed barrier.
  alignas(64) std::atomic<uint32_t> arrived_{0};
  // Written before start_ is raised, read after.
  Task task_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_WORKER_TEAM_H_
