// The commands of ropeway-bench.
#ifndef ROPEWAY_BENCH_COMMANDS_H_
#define ROPEWAY_BENCH_COMMANDS_H_

#include "flags/flag.h"

namespace ropeway::bench {

flags::Command KernelsCommand();
flags::Command StepsCommand();
flags::Command EngineCommand();
flags::Command DiskTierCommand();
flags::Command OrderPriceCommand();
flags::Command DeterminismCommand();
flags::Command ReplayCommand();
flags::Command GatewayCommand();

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_COMMANDS_H_
