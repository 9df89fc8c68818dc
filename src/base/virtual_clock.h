// A clock that only a simulation or a replay advances.
#ifndef ROPEWAY_BASE_VIRTUAL_CLOCK_H_
#define ROPEWAY_BASE_VIRTUAL_CLOCK_H_

#include "base/clock.h"

namespace ropeway {

// Thread rule: one thread at a time.
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

}  // namespace ropeway

#endif  // ROPEWAY_BASE_VIRTUAL_CLOCK_H_
