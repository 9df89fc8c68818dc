// From what the clients of a run saw to the figures that are told of it.
#ifndef ROPEWAY_BENCH_LOAD_FIGURES_H_
#define ROPEWAY_BENCH_LOAD_FIGURES_H_

#include <vector>

#include "bench/figures.h"
#include "bench/summary.h"

namespace ropeway {

// Adds at `where`: requests, failed, output_tok_per_s, requests_per_s, prompt_tokens,
// output_tokens, ttft_p50_s, ttft_p90_s, ttft_p99_s, itl_p50_s, itl_p99_s, itl_samples,
// latency_p50_s, latency_p99_s, wall_s and generator_cpu_share, of all `runs` together; and where
// the server tells, batches (different ones) and batch_size (on average over the requests).
void AddLoadFigures(const std::vector<const RunResult*>& runs, int cpus, const Figure& where,
                    Figures* figures);

// The times alone, of some requests: requests, ttft_..., itl_..., latency_....
void AddTimes(const std::vector<const RequestRecord*>& records, const Figure& where,
              Figures* figures);

// Gaps between tokens, in seconds: itl_samples, itl_p50_s, itl_p90_s, itl_p99_s.
void AddGaps(std::vector<double> gaps, const Figure& where, Figures* figures);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_LOAD_FIGURES_H_
