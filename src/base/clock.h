// All code reads the time from a Clock, so that the simulation can run it in virtual time.
#ifndef ROPEWAY_BASE_CLOCK_H_
#define ROPEWAY_BASE_CLOCK_H_

#include <chrono>

namespace ropeway::base {

// Nanoseconds since an arbitrary start; never goes back.
using TimePoint = std::chrono::nanoseconds;
using Duration = std::chrono::nanoseconds;

// Seconds as a double, for metrics and reports.
inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }

// Thread rule: Now() may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

// The machine's monotonic clock.
class RealClock final : public Clock {
 public:
  TimePoint Now() const override {
    return std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

// A clock that only a simulation or a replay advances. Thread rule: one thread at a time.
class VirtualClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }

  // REQUIRES: by >= 0.
  void Advance(Duration by) { now_ += by; }
  void AdvanceTo(TimePoint to) {
    if (to > now_) now_ = to;
  }

 private:
  TimePoint now_{0};
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_CLOCK_H_
