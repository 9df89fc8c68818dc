// A fixed team of threads that computes together: the calling thread is worker 0. Between the
// phases of one Run, and shortly after it, workers wait by spinning (waking a sleeping thread costs
// 15 us and more, a phase often less); then they sleep, so that an idle team uses no CPU.
#ifndef ROPEWAY_BASE_WORKER_TEAM_H_
#define ROPEWAY_BASE_WORKER_TEAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace ropeway {

// Thread rule: Run and the destructor from one thread at a time; Barrier only inside a Run.
class WorkerTeam {
 public:
  // Starts `workers` - 1 threads. REQUIRES: workers >= 1. Throws std::system_error where the system
  // gives no more threads.
  explicit WorkerTeam(int workers);
  // Joins the threads. REQUIRES: no Run is under way.
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return workers_; }

  // Calls fn(worker) once for each worker in [0, size()), each on its own thread, and returns when
  // all returned; what they wrote is visible to the caller. Floating-point control is set to its
  // default on each of them first. REQUIRES: fn does not throw; not called from inside a Run.
  template <typename Fn>
  void Run(Fn&& fn) {
    static_assert(std::is_invocable_v<Fn&, int>);
    RunErased([](void* f, int worker) { (*static_cast<std::remove_reference_t<Fn>*>(f))(worker); },
              const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

  // Waits until every worker of the current Run called Barrier the same number of times; what any
  // of them wrote before is visible to all after.
  void Barrier();

 private:
  using Task = void (*)(void* context, int worker);

  // A number that one side raises and others wait for; each on its own cache line.
  struct alignas(64) Signal {
    std::atomic<uint32_t> value{0};
    std::atomic<uint32_t> sleepers{0};

    // Returns when value != old: spins for at most `spins` pauses, then sleeps.
    void WaitWhile(uint32_t old, int spins);
    // Raises value by one, and wakes who sleeps.
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

}  // namespace ropeway

#endif  // ROPEWAY_BASE_WORKER_TEAM_H_
