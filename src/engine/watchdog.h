// Detects an engine that makes no progress, and reports it in the log and the metrics.
#ifndef ROPEWAY_ENGINE_WATCHDOG_H_
#define ROPEWAY_ENGINE_WATCHDOG_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/metrics.h"
#include "ropeway/status.h"

namespace ropeway::engine {

// A thread that checks once every `period` and sleeps in between: it works even if the engine
// thread hangs inside a step.
//
// Thread rule: Stop and the destructor from one thread.
class Watchdog {
 public:
  // OK while there is progress, else a sentence that says what is stuck. Called on the watchdog's
  // thread.
  using CheckFn = std::function<Status()>;

  // Each stall, however long it lasts, counts once in `stalls`, which must outlive it, and writes
  // one line to the log. Throws std::system_error if the system has no more threads.
  Watchdog(CheckFn check, base::Counter* stalls, base::Duration period);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Ends the thread.
  void Stop();

 private:
  void Loop();
  void Look();

  const CheckFn check_;
  base::Counter* const stalls_;
  const base::Duration period_;
  bool stalled_ = false;  // The thread's: the present stall is reported.
  std::mutex mu_;
  std::condition_variable wake_;
  bool stopped_ = false;  // GUARDED_BY(mu_)
  std::thread thread_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_WATCHDOG_H_
