// Runs each file of some folders through a fuzz target, without libFuzzer: how ./test replays the
// corpus with any compiler.
//
//   replay_TARGET FOLDER...
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"

namespace {

// Sorted, so that the order is the same on every machine.
std::vector<std::filesystem::path> FilesOf(const char* folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void Replay(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  // Before the run: whatever kills it, its name is the last thing printed.
  std::printf("%s: %zu bytes", path.filename().c_str(), bytes.size());
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf(", %.1f ms\n", took.count());
}

}  // namespace

int main(int argc, char** argv) {
  const auto start = std::chrono::steady_clock::now();
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    const auto files = FilesOf(argv[i]);
    if (files.empty()) {
      std::fprintf(stderr, "%s: no files in %s\n", argv[0], argv[i]);
      return 1;
    }
    for (const auto& file : files) Replay(file);
    count += files.size();
  }
  if (count == 0) {
    std::fprintf(stderr, "usage: %s FOLDER...\n", argv[0]);
    return 2;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%zu inputs in %.2f s\n", count, took.count());
  return 0;
}
