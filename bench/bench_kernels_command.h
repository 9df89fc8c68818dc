// `ropeway-bench kernels`.
#ifndef ROPEWAY_BENCH_BENCH_KERNELS_COMMAND_H_
#define ROPEWAY_BENCH_BENCH_KERNELS_COMMAND_H_

#include <string>
#include <vector>

#include "cli/engine_flags.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchKernelsFlags {
  std::string model = kDefaultModel;
  int threads = 0;   // 0: the physical cores.
  std::string isa;   // "": ROPEWAY_ISA, or the best.
  std::string only;  // "": everything.
  std::string kv_cache_dtype = "f16";
  std::string rows = "1,2,3,4,6,8,12,16,32,64,128,512";
  double seconds = 0.2;
  bool quick = false;
  std::string csv;
  bool progress = true;
};

// Adds the command to `bench`. `flags` must outlive the parse.
CLI::App* AddBenchKernels(CLI::App* bench, BenchKernelsFlags* flags);

// Prints what the machine and the kernels on it reach; replies with the exit code.
int RunBenchKernels(const BenchKernelsFlags& flags);

// A list such as "1,2,16": whole numbers from 1 to 4096, each once, in rising order.
// kInvalidArgument naming the flag for anything else.
StatusOr<std::vector<int>> ParseRows(const std::string& text);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_KERNELS_COMMAND_H_
