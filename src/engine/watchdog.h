// Sees an engine that makes no progress, and says so in the log and the metrics.
#ifndef ROPEWAY_ENGINE_WATCHDOG_H_
#define ROPEWAY_ENGINE_WATCHDOG_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/metrics.h"
#include "ropeway/status.h"

namespace ropeway {

// A thread that sleeps but for one look every `period`: it works also where the engine thread hangs
// inside a step.
//
// Thread rule: Stop and the destructor from one thread.
class Watchdog {
 public:
  // OK while there is progress, else what is stuck, for a person. Called on the watchdog's thread.
  using CheckFn = std::function<Status()>;

  // `stalls`, which must outlive it, is counted up, and the log gets one line, once for each stall
  // however long it lasts. Throws std::system_error where the system gives no more threads.
  Watchdog(CheckFn check, Counter* stalls, Duration period);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Ends the thread.
  void Stop();

 private:
  void Loop();
  void Look();

  const CheckFn check_;
  Counter* const stalls_;
  const Duration period_;
  bool stalled_ = false;  // The thread's: the stall at hand is told.
  std::mutex mu_;
  std::condition_variable wake_;
  bool stopped_ = false;  // Guarded by mu_.
  std::thread thread_;
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_WATCHDOG_H_
