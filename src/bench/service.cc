#include "bench/service.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ropeway {

void ServiceTrail::Add(const RequestRecord& record, double offset) {
  if (!record.ok() || !record.ttft) return;
  const double due = offset + record.due;
  double at = due + *record.ttft;
  waits_.emplace_back(due, at);
  const auto prompt =
      static_cast<double>(record.input_tokens - record.cached_tokens.value_or(0)) * weights_.input;
  const double pieces = 1.0 + static_cast<double>(record.gaps.size());
  const double piece = static_cast<double>(record.output_tokens) * weights_.output / pieces;
  points_.emplace_back(at, prompt + piece);
  for (const float gap : record.gaps) {
    at += gap;
    points_.emplace_back(at, piece);
  }
}

void ServiceTrail::Close() {
  std::sort(points_.begin(), points_.end());
  double sum = 0;
  for (auto& [at, work] : points_) work = sum += work;
  std::sort(waits_.begin(), waits_.end());
  std::vector<std::pair<double, double>> joined;
  for (const auto& [begin, end] : waits_) {
    if (!joined.empty() && begin <= joined.back().second) {
      joined.back().second = std::max(joined.back().second, end);
    } else {
      joined.emplace_back(begin, end);
    }
  }
  waits_ = std::move(joined);
}

double ServiceTrail::Between(double begin, double end) const {
  const auto up_to = [this](double time) {
    const auto after = std::upper_bound(
        points_.begin(), points_.end(), time,
        [](double value, const std::pair<double, double>& point) { return value < point.first; });
    return after == points_.begin() ? 0.0 : std::prev(after)->second;
  };
  return up_to(end) - up_to(begin);
}

bool ServiceTrail::WaitedThrough(double begin, double end) const {
  return std::any_of(waits_.begin(), waits_.end(), [&](const std::pair<double, double>& wait) {
    return wait.first <= begin && end <= wait.second;
  });
}

ServiceTrail TrailOf(const std::vector<RequestRecord>& records, const ServiceWeights& weights) {
  ServiceTrail trail(weights);
  for (const RequestRecord& record : records) trail.Add(record);
  trail.Close();
  return trail;
}

double SteadyRate(const std::vector<RequestRecord>& records, const ServiceWeights& weights) {
  double begin = 0;
  double end = 0;
  for (const RequestRecord& record : records) end = std::max(end, record.due);
  const ServiceTrail trail = TrailOf(records, weights);
  begin = end / 10;
  if (trail.Between(begin, end) <= 0) {
    begin = 0;
    for (const RequestRecord& record : records) end = std::max(end, record.due + record.latency);
  }
  return end > begin ? trail.Between(begin, end) / (end - begin) : 0;
}

ServiceGap MeasureServiceGap(const std::vector<RequestRecord>& records,
                             std::span<const int> clients, double half,
                             const ServiceWeights& weights) {
  int count = 0;
  double last = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    count = std::max(count, clients[i] + 1);
    last = std::max(last, records[i].due + records[i].latency);
  }
  std::vector<ServiceTrail> trails(static_cast<size_t>(count), ServiceTrail(weights));
  for (size_t i = 0; i < records.size(); ++i) {
    trails[static_cast<size_t>(clients[i])].Add(records[i]);
  }
  for (ServiceTrail& trail : trails) trail.Close();
  ServiceGap gap;
  for (double t = half; t + half <= last; t += 1) {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    int waiting = 0;
    for (const ServiceTrail& trail : trails) {
      if (!trail.WaitedThrough(t - half, t + half)) continue;
      const double got = trail.Between(t - half, t + half);
      least = std::min(least, got);
      most = std::max(most, got);
      ++waiting;
    }
    if (waiting < 2) continue;
    ++gap.windows;
    if (most - least <= gap.largest) continue;
    gap.largest = most - least;
    gap.at = t;
  }
  return gap;
}

double FairShare(std::vector<double> demands, double capacity) {
  std::sort(demands.begin(), demands.end());
  for (size_t i = 0; i < demands.size(); ++i) {
    // Those before it got all that they ask for.
    const double level = capacity / static_cast<double>(demands.size() - i);
    if (demands[i] > level) return level;
    capacity -= demands[i];
  }
  return demands.empty() ? 0 : demands.back();
}

}  // namespace ropeway
