// ropeway-bench: measures the engine and its parts. The program `ropeway` does not contain it.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/output.h"
#include "bench/commands.h"
#include "flags/program.h"

namespace ropeway::bench {
namespace {

std::string OwnPath() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

// Replaces this process with bench/run.py, which runs the benchmarks that drive servers. Its
// environment names the programs; ROPEWAY_PYTHON names another Python. Returns 1 where it is not
// there.
int RunPython(int argc, char** argv) {
  const std::filesystem::path source = ROPEWAY_SOURCE_DIR;
  std::string script = (source / "bench" / "run.py").string();
  std::error_code error;
  if (!std::filesystem::exists(script, error)) {
    return base::Fail(fmt::format("{} runs from the checkout that it was built in: there is no {}",
                                  argv[1], script));
  }
  const std::filesystem::path own = OwnPath();
  setenv("ROPEWAY_BENCH", own.c_str(), 0);
  setenv("ROPEWAY", (own.parent_path() / "ropeway").c_str(), 0);
  const char* given = std::getenv("ROPEWAY_PYTHON");
  const std::filesystem::path venv = source / ".venv" / "bin" / "python";
  std::string python = given != nullptr                       ? given
                       : std::filesystem::exists(venv, error) ? venv.string()
                                                              : "python3";
  std::vector<char*> words = {python.data(), script.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  words.push_back(nullptr);
  execvp(words[0], words.data());
  return base::Fail(fmt::format("cannot run {}", python));
}

int Main(int argc, char** argv) {
  base::HoldStandardDescriptors();
  signal(SIGPIPE, SIG_IGN);  // A failed write, not the end of the program.
  spdlog::set_default_logger(spdlog::stderr_color_mt("ropeway-bench"));
  flags::Program program;
  program.name = "ropeway-bench";
  program.version = ROPEWAY_VERSION;
  program.description = "Measures Ropeway's engine and its parts";
  program.footer =
      "Other names run bench/run.py, which drives servers: schedulers, priorities, fairness, "
      "long-prompt,\nsessions, conversations, prefixes, knobs, serial-vs-batched, http, users, "
      "models,\nembeddings, first-answers";
  program.commands = {KernelsCommand(),    StepsCommand(),       EngineCommand(), DiskTierCommand(),
                      OrderPriceCommand(), DeterminismCommand(), ReplayCommand(), GatewayCommand()};
  const auto is_here = [&program](std::string_view name) {
    return std::ranges::any_of(program.commands, [name](auto& c) { return c.name == name; });
  };
  if (argc > 1 && argv[1][0] != '-' && !is_here(argv[1])) return RunPython(argc, argv);
  return flags::RunProgram(program, argc, argv);
}

}  // namespace
}  // namespace ropeway::bench

int main(int argc, char** argv) {
  try {
    return ropeway::bench::Main(argc, argv);
  } catch (const std::exception& e) {
    return ropeway::base::Fail(e.what());
  }
}
