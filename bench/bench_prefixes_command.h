// `ropeway-bench prefixes`: prompts that begin alike, and traces of such.
#ifndef ROPEWAY_BENCH_BENCH_PREFIXES_COMMAND_H_
#define ROPEWAY_BENCH_BENCH_PREFIXES_COMMAND_H_

#include <string>
#include <vector>

#include "bench/bench_pieces.h"
#include "bench/prefix_trace.h"
#include "ropeway/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchPrefixesFlags {
  BenchPieceFlags pieces;
  std::string part = "all";
  // Part `shared`.
  int users = 16;
  int requests = 32;
  int prompt_tokens = 2000;
  int tail_tokens = 50;
  int output_tokens = 64;
  // Parts `curves` and `slice`.
  std::string trace;
  TraceScale scale;
  std::string pools = "5,10,20,30,50";  // Per cent of the working set.
  double curve_load = 0.7;              // Offered work over the virtual device's capacity.
  int curve_requests = 0;               // The trace's first ones; 0: all.
  double slice_start = 360;
  double slice_seconds = 180;
  double slice_load = 1.3;
  double slice_pool = 0.33;       // Of the slice's working set, in the KV cache; the rest on disk.
  int max_request_tokens = 8192;  // Longer requests are left out.
  std::string kv_cache_dtype = "q8_0";
};

// Adds the command to `bench`. `flags` must outlive the parse.
CLI::App* AddBenchPrefixes(CLI::App* bench, BenchPrefixesFlags* flags);

// Measures, and prints the report; replies with the exit code: 1 where something could not be
// measured, whatever the verdicts.
int RunBenchPrefixes(const BenchPrefixesFlags& flags);

// A list such as "5,10.5,50": numbers above 0 and up to 100, in rising order. kInvalidArgument
// naming the flag for anything else.
StatusOr<std::vector<double>> ParsePools(const std::string& text);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_PREFIXES_COMMAND_H_
