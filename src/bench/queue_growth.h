// Whether a server kept up with an open loop.
#ifndef ROPEWAY_BENCH_QUEUE_GROWTH_H_
#define ROPEWAY_BENCH_QUEUE_GROWTH_H_

#include <array>
#include <vector>

#include "bench/request_record.h"

namespace ropeway {

struct QueueGrowth {
  double arrivals_seconds = 0;  // From the first request's arrival to the last one's.
  double drain_seconds = 0;     // From the last arrival to the end of the last answer.
  // Requests that had arrived and not ended, on average over each quarter of the arrivals' time.
  std::array<double, 4> in_flight{};

  // At a load of L times the capacity this tends to L - 1, and to 0 below 1.
  double drain_share() const { return arrivals_seconds > 0 ? drain_seconds / arrivals_seconds : 0; }
};

// A drain_share from which the queue grew, and up to which it did not. The last answers take their
// time also where nobody waits.
inline constexpr double kGrowsFrom = 0.15;
inline constexpr double kStableTo = 0.08;

QueueGrowth MeasureGrowth(const std::vector<RequestRecord>& records);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_QUEUE_GROWTH_H_
