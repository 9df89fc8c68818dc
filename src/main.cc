// The wiring diagram: the program's commands, and who carries them out.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>

#include "loadgen/bench_serve_command.h"
#include "cli/bench_program.h"
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
  if (IsForBenchProgram(argc, argv)) return RunBenchProgram(argc, argv);
  CommandLine line("ropeway", "Ropeway serves language models to many users at once.",
                   "serve --port 8080");

  ServeFlags serve;
  line.Add(AddServe(line.app(), &serve), [&] { return RunServe(serve); });
  RunFlags run;
  line.Add(AddRun(line.app(), &run), [&] { return RunRun(run); });
  CLI::App* bench = line.AddGroup("bench", "Measure a server; other benchmarks: ropeway-bench");
  bench->footer("All other benchmarks are commands of ropeway-bench (docs/benchmarks.md).");
  BenchServeFlags bench_serve;
  line.Add(bench, BenchServeCommand(&bench_serve));
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
