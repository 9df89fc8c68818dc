// Many users behind one long system prompt.
#ifndef ROPEWAY_BENCH_SHARED_PROMPT_H_
#define ROPEWAY_BENCH_SHARED_PROMPT_H_

#include "bench/bench_pieces.h"
#include "bench/bench_prefixes_command.h"

namespace ropeway {

// Measures the part once, with each contestant; adds its figures to `pieces`.
Status MeasureSharedPrompt(const BenchPrefixesFlags& flags, BenchPieces* pieces);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SHARED_PROMPT_H_
