#include "bench/server_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "bench/metrics_page.h"

namespace ropeway {

std::optional<double> ServerPhases::Mean(std::optional<Priority> of, size_t phase) const {
  Sum all;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (of && static_cast<size_t>(*of) != i) continue;
    all.seconds += sums[i][phase].seconds;
    all.count += sums[i][phase].count;
  }
  if (all.count <= 0) return std::nullopt;
  return all.seconds / all.count;
}

double ServerPhases::Count(Priority of) const {
  double count = 0;
  for (const Sum& sum : sums[static_cast<size_t>(of)]) count = std::max(count, sum.count);
  return count;
}

void ServerPhases::Add(const ServerPhases& other) {
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t phase = 0; phase < kPhases.size(); ++phase) {
      sums[i][phase].seconds += other.sums[i][phase].seconds;
      sums[i][phase].count += other.sums[i][phase].count;
    }
  }
}

std::optional<ServerPhases> ReadServerPhases(std::string_view page) {
  ServerPhases times;
  bool any = false;
  for (size_t i = 0; i < times.sums.size(); ++i) {
    const std::string label =
        fmt::format("priority=\"{}\"", PriorityName(static_cast<Priority>(i)));
    for (size_t phase = 0; phase < kPhases.size(); ++phase) {
      const std::string name = fmt::format("ropeway_request_{}_time_seconds", kPhases[phase]);
      const std::optional<double> seconds = MetricSum(page, name + "_sum", label);
      const std::optional<double> count = MetricSum(page, name + "_count", label);
      if (!seconds || !count) continue;
      any = true;
      times.sums[i][phase] = {*seconds, *count};
    }
  }
  if (!any) return std::nullopt;
  return times;
}

std::optional<ServerPhases> Between(const std::optional<ServerPhases>& before,
                                    const std::optional<ServerPhases>& after) {
  if (!before || !after) return std::nullopt;
  ServerPhases gained = *after;
  for (size_t i = 0; i < gained.sums.size(); ++i) {
    for (size_t phase = 0; phase < kPhases.size(); ++phase) {
      const ServerPhases::Sum& then = before->sums[i][phase];
      ServerPhases::Sum* now = &gained.sums[i][phase];
      now->seconds = std::max(0.0, now->seconds - then.seconds);
      now->count -= then.count;
      if (now->count < 0) return std::nullopt;
    }
  }
  return gained;
}

}  // namespace ropeway
