// The wiring diagram: the program's commands, and who carries them out.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>

#include "bench/bench_serve_command.h"
#include "cli/bench_fairness_command.h"
#include "cli/bench_kernels_command.h"
#include "cli/bench_long_prompt_command.h"
#include "cli/bench_prefixes_command.h"
#include "cli/bench_priorities_command.h"
#include "cli/bench_sameness_command.h"
#include "cli/bench_schedulers_command.h"
#include "cli/bench_sessions_command.h"
#include "cli/command_line.h"
#include "cli/completion.h"
#include "cli/inspect_command.h"
#include "cli/output.h"
#include "cli/perplexity_command.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/tokenize_command.h"

namespace ropeway {
namespace {

int Main(int argc, char** argv) {
  HoldStandardDescriptors();
  signal(SIGPIPE, SIG_IGN);  // A reader that went away is a failed write, never a dead program.
  spdlog::set_default_logger(spdlog::stderr_color_mt("ropeway"));
  CommandLine line;

  ServeFlags serve;
  line.Add(AddServe(line.app(), &serve), [&] { return RunServe(serve); });
  RunFlags run;
  line.Add(AddRun(line.app(), &run), [&] { return RunRun(run); });
  CLI::App* bench = line.AddGroup(
      "bench",
      "Measure a server, this machine's kernels, what is kept between requests, who is served "
      "when, or how many answers one prompt gets");
  BenchServeFlags bench_serve;
  line.Add(AddBenchServe(bench, &bench_serve), [&] { return RunBenchServe(bench_serve); });
  BenchKernelsFlags bench_kernels;
  line.Add(AddBenchKernels(bench, &bench_kernels), [&] { return RunBenchKernels(bench_kernels); });
  BenchSamenessFlags bench_sameness;
  line.Add(AddBenchSameness(bench, &bench_sameness),
           [&] { return RunBenchSameness(bench_sameness); });
  BenchSessionsFlags bench_sessions;
  line.Add(AddBenchSessions(bench, &bench_sessions),
           [&] { return RunBenchSessions(bench_sessions); });
  BenchPrefixesFlags bench_prefixes;
  line.Add(AddBenchPrefixes(bench, &bench_prefixes),
           [&] { return RunBenchPrefixes(bench_prefixes); });
  BenchSchedulersFlags bench_schedulers;
  line.Add(AddBenchSchedulers(bench, &bench_schedulers),
           [&] { return RunBenchSchedulers(bench_schedulers); });
  BenchPrioritiesFlags bench_priorities;
  line.Add(AddBenchPriorities(bench, &bench_priorities),
           [&] { return RunBenchPriorities(bench_priorities); });
  BenchFairnessFlags bench_fairness;
  line.Add(AddBenchFairness(bench, &bench_fairness),
           [&] { return RunBenchFairness(bench_fairness); });
  BenchLongPromptFlags bench_long_prompt;
  line.Add(AddBenchLongPrompt(bench, &bench_long_prompt),
           [&] { return RunBenchLongPrompt(bench_long_prompt); });
  PerplexityFlags perplexity;
  line.Add(AddPerplexity(line.app(), &perplexity), [&] { return RunPerplexity(perplexity); });
  InspectFlags inspect;
  line.Add(AddInspect(line.app(), &inspect), [&] { return RunInspect(inspect); });
  TokenizeFlags tokenize;
  line.Add(AddTokenize(line.app(), &tokenize), [&] { return RunTokenize(tokenize); });
  CompletionFlags completion;
  line.Add(AddCompletion(line.app(), &completion),
           [&] { return RunCompletion(*line.app(), completion); });

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
