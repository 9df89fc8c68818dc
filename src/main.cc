// The wiring diagram of `ropeway`: its commands.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <string>

#include "base/output.h"
#include "cli/bench_program.h"
#include "cli/inspect.h"
#include "cli/perplexity.h"
#include "cli/run.h"
#include "cli/serve.h"
#include "flags/program.h"
#include "loadgen/bench_serve_command.h"

namespace ropeway {
namespace {

int Main(int argc, char** argv) {
  HoldStandardDescriptors();
  signal(SIGPIPE, SIG_IGN);  // A reader that goes away is a failed write, not the end.
  spdlog::set_default_logger(spdlog::stderr_color_mt("ropeway"));
  if (IsForBenchProgram(argc, argv)) return RunBenchProgram(argc, argv);

  ServeFlags serve;
  RunFlags run;
  BenchServeFlags bench_serve;
  PerplexityFlags perplexity;
  InspectFlags inspect;
  TokenizeFlags tokenize;
  std::string shell;
  Program program = {"ropeway",
                     ROPEWAY_VERSION,
                     "Ropeway serves language models to many users at once.",
                     "`ropeway COMMAND --help` lists a command's flags.\n\n"
                     "Example:\n  ropeway serve --port 8080",
                     {}};
  program.commands = {ServeCommand(&serve),
                      RunCommand(&run),
                      {"bench",
                       "Measure a server; other benchmarks: ropeway-bench",
                       {},
                       "All other benchmarks are commands of ropeway-bench (docs/benchmarks.md).",
                       nullptr,
                       {BenchServeCommand(&bench_serve)}},
                      PerplexityCommand(&perplexity),
                      InspectCommand(&inspect),
                      TokenizeCommand(&tokenize),
                      CompletionCommand(&program, &shell)};
  return RunProgram(program, argc, argv);
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
