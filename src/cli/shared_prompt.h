// Many users behind one long system prompt.
#ifndef ROPEWAY_CLI_SHARED_PROMPT_H_
#define ROPEWAY_CLI_SHARED_PROMPT_H_

#include "cli/bench_pieces.h"
#include "cli/bench_prefixes_command.h"

namespace ropeway {

// Measures the part once, with each contestant; adds its figures to `pieces`.
Status MeasureSharedPrompt(const BenchPrefixesFlags& flags, BenchPieces* pieces);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_SHARED_PROMPT_H_
