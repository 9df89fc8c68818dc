// `ropeway-bench determinism`: one prompt, asked many times at temperature 0: how many answers?
#ifndef ROPEWAY_BENCH_BENCH_DETERMINISM_COMMAND_H_
#define ROPEWAY_BENCH_BENCH_DETERMINISM_COMMAND_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchDeterminismFlags {
  std::string model;     // "": the default model, or the server's first.
  std::string base_url;  // "": no server, but the engine in this process.
  std::string api_key;
  bool insecure = false;
  std::string prompt =
      "Once upon a time, in a village high up in the mountains, there lived an old woman who";
  int asks = 1000;
  int output_tokens = 64;
  std::string kv_cache_dtype = "f16";     // In this process.
  int rounds = 10;                        // In this process.
  int concurrency = 16;                   // Of a server.
  std::chrono::milliseconds max_time{0};  // Of asking a server; 0: no limit.
  double company = 1;
  uint64_t seed = 1;
  std::string json;  // A file; "": none.
};

// Adds the command `determinism` to `bench`. `flags` must outlive the parse.
CLI::App* AddBenchDeterminism(CLI::App* bench, BenchDeterminismFlags* flags);

// Asks, and prints a table of what the asks went through and how many answers there were. The reply
// is the exit code: 0 if all answers were the same, in tokens and, where they are told, in
// log-probabilities; 1 if they were not, or on any error.
int RunBenchDeterminism(const BenchDeterminismFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_DETERMINISM_COMMAND_H_
