// The commands of ropeway-bench.
#ifndef ROPEWAY_BENCH_COMMANDS_H_
#define ROPEWAY_BENCH_COMMANDS_H_

#include "flags/flag.h"

namespace ropeway {

Command KernelsCommand();
Command StepsCommand();
Command EngineCommand();
Command DiskTierCommand();
Command OrderPriceCommand();
Command DeterminismCommand();
Command ReplayCommand();

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_COMMANDS_H_
