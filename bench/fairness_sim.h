// Tenants of a trace in virtual time.
#ifndef ROPEWAY_BENCH_FAIRNESS_SIM_H_
#define ROPEWAY_BENCH_FAIRNESS_SIM_H_

#include <string>
#include <vector>

#include "bench/request_record.h"
#include "bench/tenant_trace.h"
#include "ropeway/status.h"

namespace ropeway {

// Plays the requests, each at its arrival times `time_factor`, through the engine's own core and
// scheduler under `policy`, with so many places and memory for everything, on a device whose steps
// take what a formula says (replay/). The records are what clients would see; record i is of
// request i.
StatusOr<std::vector<RequestRecord>> SimulateTenants(const std::vector<TenantRequest>& requests,
                                                     const std::string& policy, int places,
                                                     double time_factor);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_FAIRNESS_SIM_H_
