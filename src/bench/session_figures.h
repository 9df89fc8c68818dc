// From what the users of a run saw to the figures that are told of it.
#ifndef ROPEWAY_BENCH_SESSION_FIGURES_H_
#define ROPEWAY_BENCH_SESSION_FIGURES_H_

#include "bench/figures.h"
#include "bench/session_runner.h"

namespace ropeway {

// Adds at `where`: turns, failed, turns_per_s, output_tok_per_s, prompt_tokens, cached_tokens
// (where the server tells), prefilled_tokens, ttft_p50_s, ttft_p90_s, wall_s, generator_cpu_share;
// and at each turn, x = 1, 2, ...: turns, prefilled_tokens, ttft_p50_s and ttft_p90_s. Turns that
// failed count in `failed` alone.
void AddSessionFigures(const SessionResult& result, int cpus, const Figure& where,
                       Figures* figures);

// Tokens of the prompt that no cache gave: all of them where the server does not say.
int64_t PrefilledTokens(const RequestRecord& record);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SESSION_FIGURES_H_
