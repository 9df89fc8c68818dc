// The increase of a Ropeway server's /metrics over a run: time of its requests by phase, batches.
#ifndef ROPEWAY_LOADGEN_SERVER_METRICS_H_
#define ROPEWAY_LOADGEN_SERVER_METRICS_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "loadgen/request_record.h"
#include "net/base_url.h"
#include "ropeway/request.h"

namespace ropeway::loadgen {

// Sums over the requests that ended.
struct ServerMetrics {
  struct Sum {
    double seconds = 0;
    double count = 0;
  };
  std::array<std::array<Sum, kPhases.size()>, kNumPriorities> phases{};  // By class and phase.
  std::optional<double> batches;

  // Mean seconds of a phase for one class; none if no request is counted.
  std::optional<double> Mean(Priority of, size_t phase) const;
  // Requests of this class.
  double Count(Priority of) const;

  void Add(const ServerMetrics& other);
};

// The server's counts since its start, from the text of /metrics; none without such metrics.
std::optional<ServerMetrics> ReadServerMetrics(std::string_view page);

// The increase between two pages; none if one is missing, or the server was restarted meanwhile.
std::optional<ServerMetrics> Between(const std::optional<ServerMetrics>& before,
                                     const std::optional<ServerMetrics>& after);

// The sum of a metric's series whose labels hold `label`; none if `page` has none.
std::optional<double> MetricSum(std::string_view page, std::string_view name,
                                std::string_view label);

// The text of a server's /metrics; "" if it has none. Blocks.
std::string FetchMetrics(const net::BaseUrl& url, const std::string& api_key, bool insecure);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_SERVER_METRICS_H_
