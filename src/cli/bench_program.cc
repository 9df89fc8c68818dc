#include "cli/bench_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/output.h"

namespace ropeway::cli {

bool IsForBenchProgram(int argc, char** argv) {
  if (argc < 3 || std::string_view(argv[1]) != "bench") return false;
  const std::string_view name = argv[2];
  return name != "serve" && !name.starts_with('-');
}

int RunBenchProgram(int argc, char** argv) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string program = (own.parent_path() / "ropeway-bench").string();
  std::vector<char*> words = {program.data()};
  words.insert(words.end(), argv + 2, argv + argc);
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  return base::Fail(
      fmt::format("`bench {}` needs the program ropeway-bench in the folder of ropeway: build it "
                  "with `scripts/build.sh "
                  "release --target ropeway-bench`, or measure a server with `bench serve`",
                  argv[2]));
}

}  // namespace ropeway::cli
