// What the commands that run a model in this process have in common.
#ifndef ROPEWAY_BENCH_BENCH_FLAGS_H_
#define ROPEWAY_BENCH_BENCH_FLAGS_H_

#include <memory>
#include <string>

#include "cli/engine_flags.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "ropeway/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct BenchFlags {
  std::string model = kDefaultModel;
  int threads = 0;  // 0: the physical cores.
  double seconds = 0.5;
  std::string kv_cache_dtype = "f16";

  int resolved_threads() const;
};

// Adds --model and --threads. `flags` must outlive the parse.
void AddBenchFlags(CLI::App* app, BenchFlags* flags);
// Adds --seconds; `of` says what takes so long.
void AddSecondsFlag(CLI::App* app, BenchFlags* flags, const std::string& of);
void AddKvTypeFlag(CLI::App* app, std::string* kv_cache_dtype);

// The model of --model, loaded. Fails where it is not found or cannot be read.
StatusOr<std::shared_ptr<const Model>> LoadModel(const BenchFlags& flags);

// The kernels named `isa`; "": those of ROPEWAY_ISA, or the best. kInvalidArgument where this CPU
// cannot run them.
StatusOr<const Kernels*> ChooseTable(const std::string& isa);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BENCH_FLAGS_H_
