// A server's /metrics in Prometheus' text format.
#ifndef ROPEWAY_BENCH_METRICS_PAGE_H_
#define ROPEWAY_BENCH_METRICS_PAGE_H_

#include <optional>
#include <string>
#include <string_view>

#include "net/http_client.h"

namespace ropeway {

// The sum of all samples of the metric `name` on `page` whose labels hold `label`, such as
// `tier="disk"`; "": any. None where there is no such sample.
std::optional<double> MetricSum(std::string_view page, std::string_view name,
                                std::string_view label);

// The value of `label` in the first sample of `name`; "" where there is none.
std::string MetricLabel(std::string_view page, std::string_view name, std::string_view label);

// The page of the server at `url`, whose path is left out; "" where it has none. `insecure`: any
// certificate will do.
std::string FetchMetrics(const BaseUrl& url, const std::string& api_key = "", bool insecure = true);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_METRICS_PAGE_H_
