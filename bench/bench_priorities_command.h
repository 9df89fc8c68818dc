// `ropeway-bench priorities`: how long urgent requests wait while there is much else to do.
#ifndef ROPEWAY_BENCH_BENCH_PRIORITIES_COMMAND_H_
#define ROPEWAY_BENCH_BENCH_PRIORITIES_COMMAND_H_

#include <string>

#include "bench/bench_pieces.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchPrioritiesFlags {
  BenchPieceFlags pieces;
  int prompt_tokens = 64;
  int output_tokens = 64;
  int places = 16;
  double temperature = 0;
  double open_load = 0.8;     // Of the capacity.
  double high_load = 0.2;     // Likewise, beside low-priority work.
  double medium_load = 0.15;  // Likewise.
  int capacity_requests = 160;
  int unloaded_requests = 200;
  int open_requests = 600;    // A third of each class.
  int urgent_requests = 500;  // High and medium together.
  double alone_seconds = 30;
  int texts = 16;
  double limit_factor = 1;
};

// Adds the command to `bench`. `flags` must outlive the parse.
CLI::App* AddBenchPriorities(CLI::App* bench, BenchPrioritiesFlags* flags);

// Measures, and prints the report; replies with the exit code: 1 where something could not be
// measured, whatever the verdicts.
int RunBenchPriorities(const BenchPrioritiesFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_PRIORITIES_COMMAND_H_
