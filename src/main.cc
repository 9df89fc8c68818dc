// The wiring diagram of `ropeway`: its commands.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <string>

#include "base/output.h"
#include "cli/bench_program.h"
#include "cli/devices.h"
#include "cli/gateway.h"
#include "cli/inspect.h"
#include "cli/models.h"
#include "cli/perplexity.h"
#include "cli/run_flags.h"
#include "cli/serve.h"
#include "cli/top.h"
#include "flags/program.h"
#include "loadgen/load_options.h"

namespace ropeway {
namespace {

int Main(int argc, char** argv) {
  base::HoldStandardDescriptors();
  signal(SIGPIPE, SIG_IGN);  // A reader that goes away is a failed write, not the end.
  spdlog::set_default_logger(spdlog::stderr_color_mt("ropeway"));
  if (cli::IsForBenchProgram(argc, argv)) return cli::RunBenchProgram(argc, argv);

  cli::ServeFlags serve;
  cli::GatewayFlags gateway;
  cli::RunFlags run;
  loadgen::BenchServeFlags bench_serve;
  cli::TopFlags top;
  cli::PerplexityFlags perplexity;
  cli::ModelsFlags models;
  cli::InspectFlags inspect;
  cli::TokenizeFlags tokenize;
  std::string shell;
  flags::Program program = {"ropeway",
                            ROPEWAY_VERSION,
                            "Ropeway serves language models to many users at once.",
                            "`ropeway COMMAND --help` lists a command's flags, as does `ropeway "
                            "help COMMAND`.\n`ropeway ls` is `ropeway models list`, and `ropeway "
                            "version` is `ropeway --version`.\n\n"
                            "Example:\n  ropeway serve --port 8080",
                            {}};
  program.commands = {
      cli::ServeCommand(&serve),
      cli::GatewayCommand(&gateway),
      cli::RunCommand(&run),
      {"bench",
       "Measure a server; other benchmarks: ropeway-bench",
       {},
       "The other benchmarks are in ropeway-bench; `ropeway bench NAME` runs them "
       "(docs/benchmarks.md):\n"
       "schedulers, priorities, fairness, long-prompt, sessions, conversations, prefixes, "
       "knobs,\nserial-vs-batched, gateway, http, users, models, embeddings, first-answers, "
       "determinism, kernels,\nsteps, engine, disk-tier, order-price, replay",
       nullptr,
       {loadgen::BenchServeCommand(&bench_serve)}},
      cli::TopCommand(&top),
      cli::ModelsCommand(&models),
      cli::PerplexityCommand(&perplexity),
      cli::InspectCommand(&inspect),
      cli::DevicesCommand(),
      cli::TokenizeCommand(&tokenize),
      flags::CompletionCommand(&program, &shell)};
  program.aliases = {{"ls", {"models", "list"}}, {"version", {"--version"}}};
  program.foreign = {
      {"-ngl,--n-gpu-layers,--gpu-layers,--gpu-memory-utilization,"
       "--tensor-parallel-size,-tp",
       "Ropeway computes on CPUs, and uses all of them"}};
  return flags::RunProgram(program, argc, argv);
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) {
  try {
    return ropeway::Main(argc, argv);
  } catch (const std::exception& e) {
    return ropeway::base::Fail(e.what());
  }
}
