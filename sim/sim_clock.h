// Time that passes only when the simulation says so.
#ifndef ROPEWAY_SIM_SIM_CLOCK_H_
#define ROPEWAY_SIM_SIM_CLOCK_H_

#include "base/clock.h"

namespace ropeway::sim {

class SimClock final : public Clock {
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

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_SIM_CLOCK_H_
