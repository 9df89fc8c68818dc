// `ropeway-bench fairness`: tenants of a trace who ask for more than there is.
#ifndef ROPEWAY_BENCH_BENCH_FAIRNESS_COMMAND_H_
#define ROPEWAY_BENCH_BENCH_FAIRNESS_COMMAND_H_

#include <string>

#include "bench/bench_pieces.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchFairnessFlags {
  BenchPieceFlags pieces;
  std::string trace;
  std::string part = "all";
  double load = 1.25;  // Offered work over the capacity.
  int places = 16;
  int length_divisor = 6;   // Of the measured part.
  int requests = 0;         // The trace's first ones; 0: all.
  int pairs = 7;            // Of runs, alternated.
  double half_window = 30;  // Seconds.
  int capacity_part = 8;    // One request in so many measures the capacity.
};

// Adds the command to `bench`. `flags` must outlive the parse.
CLI::App* AddBenchFairness(CLI::App* bench, BenchFairnessFlags* flags);

// Measures, and prints the report; replies with the exit code: 1 where something could not be
// measured, whatever the verdicts.
int RunBenchFairness(const BenchFairnessFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_FAIRNESS_COMMAND_H_
