// ropeway-bench: measures the engine and its parts. The program `ropeway` does not contain it.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>

#include "bench/bench_fairness_command.h"
#include "bench/bench_long_prompt_command.h"
#include "bench/bench_prefixes_command.h"
#include "bench/bench_priorities_command.h"
#include "bench/bench_schedulers_command.h"
#include "bench/bench_sessions_command.h"
#include "bench/commands.h"
#include "cli/command_line.h"
#include "cli/output.h"

namespace ropeway {
namespace {

int Main(int argc, char** argv) {
  HoldStandardDescriptors();
  signal(SIGPIPE, SIG_IGN);  // A failed write, not the end of the program.
  spdlog::set_default_logger(spdlog::stderr_color_mt("ropeway-bench"));
  CommandLine line("ropeway-bench", "Measures Ropeway's engine and its parts.", "steps");

  for (const Command& command :
       {KernelsCommand(), StepsCommand(), EngineCommand(), DiskTierCommand(), OrderPriceCommand(),
        DeterminismCommand(), ReplayCommand()}) {
    line.Add(line.app(), command);
  }
  BenchSessionsFlags sessions;
  line.Add(AddBenchSessions(line.app(), &sessions), [&] { return RunBenchSessions(sessions); });
  BenchPrefixesFlags prefixes;
  line.Add(AddBenchPrefixes(line.app(), &prefixes), [&] { return RunBenchPrefixes(prefixes); });
  BenchSchedulersFlags schedulers;
  line.Add(AddBenchSchedulers(line.app(), &schedulers),
           [&] { return RunBenchSchedulers(schedulers); });
  BenchPrioritiesFlags priorities;
  line.Add(AddBenchPriorities(line.app(), &priorities),
           [&] { return RunBenchPriorities(priorities); });
  BenchFairnessFlags fairness;
  line.Add(AddBenchFairness(line.app(), &fairness), [&] { return RunBenchFairness(fairness); });
  BenchLongPromptFlags long_prompt;
  line.Add(AddBenchLongPrompt(line.app(), &long_prompt),
           [&] { return RunBenchLongPrompt(long_prompt); });
  return line.Main(argc, argv);
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) {
  try {
    return ropeway::Main(argc, argv);
  } catch (const std::exception& e) {
    return ropeway::Fail(e.what());
  }
}
