// The commands of ropeway-bench. Each function adds one command to the program's command line.
#ifndef ROPEWAY_BENCH_COMMANDS_H_
#define ROPEWAY_BENCH_COMMANDS_H_

namespace ropeway {

class CommandLine;

void AddStepsCommand(CommandLine* line);
void AddEngineCommand(CommandLine* line);
void AddDiskTierCommand(CommandLine* line);
void AddOrderPriceCommand(CommandLine* line);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_COMMANDS_H_
