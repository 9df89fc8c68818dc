#include "bench/tenant_trace.h"

#include <algorithm>
#include <map>

namespace ropeway {

StatusOr<std::vector<TenantRequest>> TenantTrace(const Trace& trace, int divisor, int limit) {
  std::vector<TenantRequest> requests;
  std::map<int, int> clients;  // By their first request.
  for (const TraceEntry& entry : trace.entries) {
    if (limit > 0 && static_cast<int>(requests.size()) == limit) break;
    if (!entry.arrival) {
      return InvalidArgument("--trace: each entry needs its arrival and its client", "trace");
    }
    TenantRequest& request = requests.emplace_back();
    request.arrival = *entry.arrival;
    request.client =
        clients.try_emplace(entry.client, static_cast<int>(clients.size())).first->second;
    request.input_tokens = (entry.input_tokens + divisor - 1) / divisor;
    request.output_tokens = (entry.output_tokens + divisor - 1) / divisor;
  }
  if (clients.size() < 2 || requests.back().arrival <= 0) {
    return InvalidArgument("--trace: it must have requests of several clients at several times",
                           "trace");
  }
  return requests;
}

int CountClients(const std::vector<TenantRequest>& requests) {
  int count = 0;
  for (const TenantRequest& request : requests) count = std::max(count, request.client + 1);
  return count;
}

double WorkOf(const TenantRequest& request, const ServiceWeights& weights) {
  return weights.input * request.input_tokens + weights.output * request.output_tokens;
}

double WorkOf(const std::vector<TenantRequest>& requests, const ServiceWeights& weights) {
  double work = 0;
  for (const TenantRequest& request : requests) work += WorkOf(request, weights);
  return work;
}

double TimeFactor(const std::vector<TenantRequest>& requests, const ServiceWeights& weights,
                  double capacity, double load) {
  const double span = requests.back().arrival - requests.front().arrival;
  return WorkOf(requests, weights) / capacity / load / span;
}

std::vector<bool> LightClients(const std::vector<TenantRequest>& requests,
                               const ServiceWeights& weights, double load) {
  std::vector<double> demands(static_cast<size_t>(CountClients(requests)));
  for (const TenantRequest& request : requests) {
    demands[static_cast<size_t>(request.client)] += WorkOf(request, weights);
  }
  const double level = FairShare(demands, WorkOf(requests, weights) / load);
  std::vector<bool> light;
  for (const double demand : demands) light.push_back(demand <= level);
  return light;
}

}  // namespace ropeway
