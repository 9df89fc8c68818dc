// The metrics of tenants.
#ifndef ROPEWAY_SERVER_TENANT_METRICS_H_
#define ROPEWAY_SERVER_TENANT_METRICS_H_

#include <string>
#include <vector>

#include "http/http_metrics.h"
#include "server/key_limits.h"

namespace ropeway::server {

// The series of all tenants, or of `tenant` alone if that is not "", in the Prometheus text format.
std::string TenantText(const http::HttpMetrics& metrics, const std::vector<KeyUsage>& usage,
                       const std::string& tenant);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TENANT_METRICS_H_
