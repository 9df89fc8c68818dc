// What was measured, in the order of measuring.
#ifndef ROPEWAY_BENCH_KERNELS_RESULTS_H_
#define ROPEWAY_BENCH_KERNELS_RESULTS_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/kernels/attention_bench.h"
#include "bench/kernels/limits.h"
#include "bench/kernels/shapes.h"
#include "bench/kernels/timing.h"

namespace ropeway {

// What changes while other tenants of the host work: measured just before each figure.
struct Conditions {
  double barrier_ns = 0;  // Of one barrier of the threads.
  double sweep = 0;       // Bytes per second from memory.
};

// The machine, and how it was used.
struct Setting {
  std::string cpu;
  std::string isa;  // The table of kernels that was timed.
  std::string model;
  int threads = 1;
  bool cold = true;  // Weights and KV came from memory.
};

// The loops of one table, or the sweep over memory.
struct PeakResult {
  std::string what;  // "int8", "f32" or "sweep".
  std::string isa;
  int threads = 1;
  double work = 0;  // Operations, or bytes of the sweep, that `timing` is of.
  Timing timing;
  double barrier_ns = 0;

  // Loops: of the best repetition, since one that had to share a core is no limit of the machine.
  double per_second() const { return work / (what == "sweep" ? timing.median : timing.least); }
};

struct MatMulResult {
  std::string model;
  MatMulShape shape;
  int rows = 1;
  bool by_rows = false;  // How it was dealt out.
  Conditions conditions;
  Timing timing;
  Work work;
  Reached reached;

  double ops() const { return work.int8_ops + work.f32_ops; }
};

struct AttentionResult {
  std::string model;
  AttentionShape shape;
  AttentionCase problem;
  Conditions conditions;
  Timing timing;
  Work work;
  Reached reached;
};

// A product of a forward pass that took more memory than there was for it.
struct ProductLeftOut {
  std::string model;
  MatMulShape shape;
};

// Of the products of one model's forward pass with so many rows, each as often as it occurs.
struct WeightedShare {
  std::string model;
  int rows = 1;
  bool with_output = false;  // All rows through the output matrix too, as decoding does.
  double ops_per_second = 0;
  double peak_share = 0;   // Of the peak of operations.
  double bound_share = 0;  // The least possible time over the time taken.
  int missing = 0;         // Products that belong to it and were left out.
};

struct Results {
  Setting setting;
  Limits limits;  // Those that shares are of, but for the sweep, which is measured anew each time.
  std::vector<PeakResult> peaks;
  std::vector<MatMulResult> products;
  std::vector<MatMulResult> logits;  // The output matrix with several vocabularies.
  std::vector<AttentionResult> attention;
  std::vector<ProductLeftOut> products_left_out;
  std::vector<std::string> left_out;  // One sentence each: what was not measured, and why.
};

// The median of some figures and between what the middle eight tenths of them lie; all 0 where
// there are none.
struct Range {
  double low = 0;
  double median = 0;
  double high = 0;
};
Range BarrierRange(const Results& results);  // Nanoseconds.
Range SweepRange(const Results& results);    // Bytes per second.
// Of all timings: (largest - smallest) / median of their repetitions.
Range SpreadRange(const Results& results);

// "layers" or "layers and output", and how many products are missing, where any are.
std::string NameOf(const WeightedShare& share);

// For each model and number of rows among the products, in their order: first without, then with
// the output matrix, where that was measured with so many rows. Without it only where another
// product was measured.
std::vector<WeightedShare> WeightedShares(const Results& results);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_KERNELS_RESULTS_H_
