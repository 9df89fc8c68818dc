// Traces whose requests are of several clients, made to fit a machine.
#ifndef ROPEWAY_BENCH_TENANT_TRACE_H_
#define ROPEWAY_BENCH_TENANT_TRACE_H_

#include <vector>

#include "bench/service.h"
#include "bench/work_file.h"
#include "ropeway/status.h"

namespace ropeway {

// One request of such a trace.
struct TenantRequest {
  double arrival = 0;  // Seconds after the trace's first.
  int client = 0;      // From 0 on, without gaps.
  int input_tokens = 1;
  int output_tokens = 1;
};

// The first `limit` requests (0: all), lengths divided by `divisor` and rounded up. Fails with
// kInvalidArgument where an entry has no arrival, or all are of one client.
StatusOr<std::vector<TenantRequest>> TenantTrace(const Trace& trace, int divisor, int limit);

// Clients that the trace has.
int CountClients(const std::vector<TenantRequest>& requests);

double WorkOf(const TenantRequest& request, const ServiceWeights& weights);
double WorkOf(const std::vector<TenantRequest>& requests, const ServiceWeights& weights);

// The factor for all arrivals at which the requests offer `load` times what a server does that gets
// through `capacity` units of work a second. REQUIRES: load and capacity above 0, and arrivals that
// are not all at once.
double TimeFactor(const std::vector<TenantRequest>& requests, const ServiceWeights& weights,
                  double capacity, double load);

// Whether each client is light: it asks for no more than what it would get if the server's work,
// 1 / load of all that is asked for, were dealt out max-min fairly (FairShare).
std::vector<bool> LightClients(const std::vector<TenantRequest>& requests,
                               const ServiceWeights& weights, double load);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_TENANT_TRACE_H_
