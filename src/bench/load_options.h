// The checked form of the flags.
#ifndef ROPEWAY_BENCH_LOAD_OPTIONS_H_
#define ROPEWAY_BENCH_LOAD_OPTIONS_H_

#include <optional>

#include "bench/bench_serve_command.h"
#include "bench/summary.h"
#include "net/base_url.h"
#include "ropeway/status.h"

namespace ropeway {

struct LoadOptions {
  BenchServeFlags flags;  // As given; each number within its bounds.
  BaseUrl url;
  bool chat = false;
  std::optional<bool> prompt_ids;  // None: ask the server.
  bool ignore_eos = true;
  std::optional<Priority> priority;
  GoodputLimits goodput;
};

// One sentence, with the flag's name, on the first thing that is wrong.
StatusOr<LoadOptions> CheckFlags(const BenchServeFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_LOAD_OPTIONS_H_
