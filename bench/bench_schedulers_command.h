// `ropeway-bench schedulers`: the batching strategies side by side, on one engine.
#ifndef ROPEWAY_BENCH_BENCH_SCHEDULERS_COMMAND_H_
#define ROPEWAY_BENCH_BENCH_SCHEDULERS_COMMAND_H_

#include <chrono>
#include <string>

#include "bench/bench_pieces.h"
#include "bench/random_lengths.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchSchedulersFlags {
  BenchPieceFlags pieces;
  std::string part = "all";
  std::string sizes = "1,2,4,8,16";
  std::string users = "6,8";
  int requests_per_place = 20;  // Of each size; requests of the users' part: half as many a user.
  // Part `mixed`.
  int mixed_runs = 3;
  int mixed_requests = 30;
  int mixed_batch = 4;
  int mixed_in_flight = 10;
  std::chrono::milliseconds mixed_timeout{500};
  // Of the parts with sizes.
  std::chrono::milliseconds batch_timeout{50};
  // Lengths.
  int least_prompt = 16;
  int most_prompt = 32;
  LengthShape outputs = {.median = 20, .spread = 1.1, .least = 1, .most = 256};
  int ceiling_tokens = 96;  // Outputs of the part `ceiling`.
};

// Adds the command to `bench`. `flags` must outlive the parse.
CLI::App* AddBenchSchedulers(CLI::App* bench, BenchSchedulersFlags* flags);

// Measures, and prints the report; replies with the exit code: 1 where something could not be
// measured, whatever the verdicts.
int RunBenchSchedulers(const BenchSchedulersFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_SCHEDULERS_COMMAND_H_
