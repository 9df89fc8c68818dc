// What the commands that run a model in this process have in common.
#ifndef ROPEWAY_BENCH_BENCH_FLAGS_H_
#define ROPEWAY_BENCH_BENCH_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "executor/weights.h"
#include "flags/flag.h"
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "ropeway/status.h"

namespace ropeway::bench {

struct BenchFlags {
  std::string model = cli::DefaultModelName();
  int threads = 0;  // 0: the physical cores.
  double seconds = 0.5;
  std::string kv_cache_dtype = "f16";

  int resolved_threads() const;
};

// Rows of flag tables; the targets must outlive the parse. `seconds`: what --seconds is the time
// of; null: there is no such flag.
std::vector<flags::Flag> ModelFlags(BenchFlags* flags, const char* seconds);
flags::Flag KvTypeFlag(std::string* kv_cache_dtype);

// A list such as "1,2,16": whole numbers from 1 to `most` in rising order. kInvalidArgument, with
// `flag`, for anything else.
StatusOr<std::vector<int>> ParseCounts(const std::string& flag, const std::string& text, int most);

// The file that --model means. Fails where it is not found or cannot be read.
StatusOr<std::unique_ptr<model::GgufFile>> OpenModelFile(const BenchFlags& flags);

// The model in it, loaded.
StatusOr<std::shared_ptr<const executor::Weights>> LoadModel(const BenchFlags& flags);

// The kernels named `isa`; "": the ones that ROPEWAY_ISA names, or the best. kInvalidArgument where
// this CPU cannot run them.
StatusOr<const kernels::Kernels*> ChooseTable(const std::string& isa);

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_BENCH_FLAGS_H_
