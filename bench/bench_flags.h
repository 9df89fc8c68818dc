// The command lines of the benchmark programs.
#ifndef ROPEWAY_BENCH_BENCH_FLAGS_H_
#define ROPEWAY_BENCH_BENCH_FLAGS_H_

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <optional>

namespace ropeway {

// Bounds of the flags that the programs have in common.
inline const CLI::Range kThreadsRange(1, 1024);
inline const CLI::Range kSecondsRange(0.001, 3600.0);

// Parses the command line into what `app` was given. The exit code where the program shall end: 0
// after --help, 1 after one sentence on standard error.
inline std::optional<int> ParseFlags(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app->exit(e);
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return std::nullopt;
}

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_FLAGS_H_
