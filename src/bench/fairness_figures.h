// From the requests of several clients and how they fared to the figures that are told of it.
#ifndef ROPEWAY_BENCH_FAIRNESS_FIGURES_H_
#define ROPEWAY_BENCH_FAIRNESS_FIGURES_H_

#include <vector>

#include "bench/figures.h"
#include "bench/request_record.h"
#include "bench/service.h"
#include "bench/tenant_trace.h"

namespace ropeway {

struct FairnessCase {
  std::vector<TenantRequest> requests;
  std::vector<bool> light;  // By client.
  ServiceWeights weights;
  double half_window = 30;  // Seconds: service is compared over windows of twice that.
  int places = 16;          // Requests that run at once.
};

// What the difference in service between two clients who wait cannot exceed under VTC (Sheng et
// al., OSDI 2024, theorem 4.4): 2 max(input x longest prompt, output x M). M, the tokens of the
// running batch, is taken as places x (longest prompt and answer).
double VtcBound(const FairnessCase& of);

// Adds at `where`: tok_per_s (all prompts' and answers' tokens until the last answer's end),
// work_per_s (while requests arrive, without the first tenth), service_gap, gap_windows, gap_bound,
// arrivals_s and wall_s; and at x = light, heavy, and "client 0" and so on: offered_work and the
// times of AddTimes. `records[i]` is of `of.requests[i]`.
void AddFairnessFigures(const std::vector<RequestRecord>& records, const FairnessCase& of,
                        const Figure& where, Figures* figures);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_FAIRNESS_FIGURES_H_
