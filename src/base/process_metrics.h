// What this process takes of the machine, under the names that Prometheus' client libraries share.
#ifndef ROPEWAY_BASE_PROCESS_METRICS_H_
#define ROPEWAY_BASE_PROCESS_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

namespace ropeway::base {

// process_cpu_seconds_total, process_resident_memory_bytes and so on, read from /proc; what cannot
// be read is left out. Thread-safe.
std::vector<prometheus::MetricFamily> ProcessMetrics();

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_PROCESS_METRICS_H_
