// A slice of a trace on the real engine, at more than it can bear without a cache.
#ifndef ROPEWAY_BENCH_TRACE_SLICE_H_
#define ROPEWAY_BENCH_TRACE_SLICE_H_

#include <span>
#include <vector>

#include "bench/bench_pieces.h"
#include "bench/bench_prefixes_command.h"
#include "bench/prefix_trace.h"

namespace ropeway {

// Measures the capacity without a cache, and then the slice without a cache, with an empty one, and
// with one that holds what the trace before the slice would have left in it for the slice.
Status MeasureSlice(const BenchPrefixesFlags& flags, std::span<const PrefixRequest> requests,
                    BenchPieces* pieces);

// The prompts whose blocks a cache that saw `before` has for `slice`: of each request of the slice
// its known blocks, as a request for one token; those that begin another one are left out.
std::vector<PrefixRequest> WarmUpRequests(std::span<const PrefixRequest> before,
                                          std::span<const PrefixRequest> slice, int block_tokens);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_TRACE_SLICE_H_
