// Time that passes only when the simulation says so.
#ifndef ROPEWAY_SIM_SIM_CLOCK_H_
#define ROPEWAY_SIM_SIM_CLOCK_H_

#include "base/virtual_clock.h"

namespace ropeway::sim {

using SimClock = VirtualClock;

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_SIM_CLOCK_H_
