#include "bench/queue_growth.h"

#include <algorithm>

namespace ropeway {

QueueGrowth MeasureGrowth(const std::vector<RequestRecord>& records) {
  QueueGrowth growth;
  if (records.empty()) return growth;
  double end = 0;
  for (const RequestRecord& record : records) {
    growth.arrivals_seconds = std::max(growth.arrivals_seconds, record.due);
    end = std::max(end, record.due + record.latency);
  }
  growth.drain_seconds = end - growth.arrivals_seconds;
  const double quarter = growth.arrivals_seconds / 4;
  if (quarter <= 0) return growth;
  for (const RequestRecord& record : records) {
    for (size_t i = 0; i < growth.in_flight.size(); ++i) {
      const double from = std::max(record.due, quarter * static_cast<double>(i));
      const double to = std::min(record.due + record.latency, quarter * static_cast<double>(i + 1));
      growth.in_flight[i] += std::max(0.0, to - from) / quarter;
    }
  }
  return growth;
}

}  // namespace ropeway
