// `ropeway bench kernels` without its flags: measures the machine's limits, then the kernels, and
// what of the limits they reach.
#ifndef ROPEWAY_BENCH_KERNELS_ROOFLINE_H_
#define ROPEWAY_BENCH_KERNELS_ROOFLINE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "bench/kernels/matmul_bench.h"
#include "bench/kernels/results.h"
#include "bench/kernels/shapes.h"
#include "ropeway/status.h"

namespace ropeway {

struct RooflineOptions {
  std::string cpu;  // The CPU's name, for the report.
  const Kernels* kernels = nullptr;
  ModelShapes model;
  int threads = 1;
  DealRule rule;
  // What is measured; the limits always are.
  bool matmul = true;
  bool attention = true;
  bool lm_head = true;
  std::vector<int> rows = {1};  // Rising, at least one.
  double seconds = 0.2;         // Of each case, about.
  bool quick = false;           // Few cases, short, and not cold: to try it, not to measure.
  // Weights or KV of one case, and the memory that the sweep reads, take at most so much.
  size_t memory = size_t{1} << 30;
};

// `progress`, if given, is told before each case what is measured, and how many of how many are
// done. Errors: kResourceExhausted where memory or threads are short all the same. A case that
// takes more than `memory` is left out, and the results say so.
StatusOr<Results> RunRoofline(
    const RooflineOptions& options,
    const std::function<void(const std::string& what, int done, int total)>& progress);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_KERNELS_ROOFLINE_H_
