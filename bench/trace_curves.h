// Hit ratios of a whole trace by the size of the pool, in virtual time.
#ifndef ROPEWAY_BENCH_TRACE_CURVES_H_
#define ROPEWAY_BENCH_TRACE_CURVES_H_

#include <span>

#include "bench/bench_pieces.h"
#include "bench/bench_prefixes_command.h"
#include "bench/prefix_trace.h"

namespace ropeway {

// Replays `requests` with each size of --pools, with the engine's eviction and LRU, without and
// with a tier that holds what the pool does not, and with a pool that holds everything.
Status MeasureCurves(const BenchPrefixesFlags& flags, std::span<const PrefixRequest> requests,
                     BenchPieces* pieces);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_TRACE_CURVES_H_
