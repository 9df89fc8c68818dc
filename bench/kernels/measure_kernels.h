// Measures the machine's limits, and the matrix products and the attention of a model beside them.
#ifndef ROPEWAY_BENCH_KERNELS_MEASURE_KERNELS_H_
#define ROPEWAY_BENCH_KERNELS_MEASURE_KERNELS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/kernels/shapes.h"
#include "bench/rows.h"
#include "kernels/kernels.h"
#include "ropeway/status.h"

namespace ropeway::bench {

struct KernelsOptions {
  std::string cpu;  // The CPU's name, for the rows.
  const kernels::Kernels* kernels = nullptr;
  ModelShapes model;
  int threads = 1;
  // What is measured; the limits always are.
  bool matmul = true;
  bool attention = true;
  bool lm_head = true;
  std::vector<int> rows = {1};  // Rising, at least one.
  // Products of the 1B class are measured in each of these types too, unless quick.
  std::vector<kernels::WeightType> types;
  double seconds = 0.2;  // Of each case, about.
  bool quick = false;    // Few cases, short, and not cold: to try it, not to measure.
  // Weights or KV of one case, and the memory that the sweep reads, take at most so much.
  size_t memory = size_t{1} << 30;
};

// Adds rows of the parts about, peak, matmul, lm-head and attention; docs/benchmarks.md names their
// metrics. `progress`, if given, is called before each case with what is measured, and how many of
// how many are done. A case that takes more than `memory` is left out, and a row says so. Errors:
// kResourceExhausted where memory or threads are short.
Status MeasureKernels(
    const KernelsOptions& options, Rows* rows,
    const std::function<void(const std::string& what, int done, int total)>& progress);

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_KERNELS_MEASURE_KERNELS_H_
