// The flags of `bench serve`, checked against each other.
#ifndef ROPEWAY_LOADGEN_LOAD_OPTIONS_H_
#define ROPEWAY_LOADGEN_LOAD_OPTIONS_H_

#include <optional>

#include "loadgen/bench_serve_command.h"
#include "loadgen/summary.h"
#include "net/base_url.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::loadgen {

struct LoadOptions {
  BenchServeFlags flags;  // As given.
  net::BaseUrl url;
  bool chat = false;
  std::optional<bool> prompt_ids;  // None: ask the server.
  bool ignore_eos = true;
  std::optional<Priority> priority;
  GoodputLimits goodput;
};

// kInvalidArgument: one sentence, with the flag's name, on the first flag that is wrong. The flags'
// own bounds are those of BenchServeCommand.
StatusOr<LoadOptions> CheckFlags(const BenchServeFlags& flags);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_LOAD_OPTIONS_H_
