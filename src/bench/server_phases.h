// Where a Ropeway server says that its requests' time went: what its /metrics gained over a run.
#ifndef ROPEWAY_BENCH_SERVER_PHASES_H_
#define ROPEWAY_BENCH_SERVER_PHASES_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ropeway/request.h"

namespace ropeway {

// In the order of a request's life. `ropeway_request_<phase>_time_seconds` are their histograms.
inline constexpr std::array<std::string_view, 5> kPhases = {"queue", "formation", "prefill",
                                                            "decode", "output"};

// Sums over the requests that ended.
struct ServerPhases {
  struct Sum {
    double seconds = 0;
    double count = 0;
  };
  std::array<std::array<Sum, kPhases.size()>, kNumPriorities> sums{};  // By class and phase.

  // Seconds; of one class, or of all. None where no request is counted.
  std::optional<double> Mean(std::optional<Priority> of, size_t phase) const;
  // Requests of this class.
  double Count(Priority of) const;

  void Add(const ServerPhases& other);
};

// What a server has counted since its start, by its page. None where it has no such metrics.
std::optional<ServerPhases> ReadServerPhases(std::string_view page);

// What came between two pages. None where one is missing, or the server began anew between them.
std::optional<ServerPhases> Between(const std::optional<ServerPhases>& before,
                                    const std::optional<ServerPhases>& after);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SERVER_PHASES_H_
