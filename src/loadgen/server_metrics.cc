#include "loadgen/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "net/http_client.h"

namespace ropeway::loadgen {
namespace {

constexpr double kMetricsTimeout = 10;  // Seconds.

}  // namespace

std::optional<double> ServerMetrics::Mean(Priority of, size_t phase) const {
  const Sum& sum = phases[static_cast<size_t>(of)][phase];
  if (sum.count <= 0) return std::nullopt;
  return sum.seconds / sum.count;
}

double ServerMetrics::Count(Priority of) const {
  double count = 0;
  for (const Sum& sum : phases[static_cast<size_t>(of)]) count = std::max(count, sum.count);
  return count;
}

void ServerMetrics::Add(const ServerMetrics& other) {
  for (size_t i = 0; i < phases.size(); ++i) {
    for (size_t phase = 0; phase < kPhases.size(); ++phase) {
      phases[i][phase].seconds += other.phases[i][phase].seconds;
      phases[i][phase].count += other.phases[i][phase].count;
    }
  }
  if (other.batches) batches = batches.value_or(0) + *other.batches;
}

std::optional<ServerMetrics> ReadServerMetrics(std::string_view page) {
  ServerMetrics metrics;
  metrics.batches = MetricSum(page, "ropeway_batches_total", "");
  bool any = metrics.batches.has_value();
  for (size_t i = 0; i < metrics.phases.size(); ++i) {
    const std::string label =
        fmt::format("priority=\"{}\"", PriorityName(static_cast<Priority>(i)));
    for (size_t phase = 0; phase < kPhases.size(); ++phase) {
      const std::string name = fmt::format("ropeway_request_{}_time_seconds", kPhases[phase]);
      const std::optional<double> seconds = MetricSum(page, name + "_sum", label);
      const std::optional<double> count = MetricSum(page, name + "_count", label);
      if (!seconds || !count) continue;
      any = true;
      metrics.phases[i][phase] = {*seconds, *count};
    }
  }
  if (!any) return std::nullopt;
  return metrics;
}

std::optional<ServerMetrics> Between(const std::optional<ServerMetrics>& before,
                                     const std::optional<ServerMetrics>& after) {
  if (!before || !after) return std::nullopt;
  ServerMetrics gained = *after;
  if (gained.batches) *gained.batches -= before->batches.value_or(0);
  for (size_t i = 0; i < gained.phases.size(); ++i) {
    for (size_t phase = 0; phase < kPhases.size(); ++phase) {
      const ServerMetrics::Sum& then = before->phases[i][phase];
      ServerMetrics::Sum* now = &gained.phases[i][phase];
      now->seconds = std::max(0.0, now->seconds - then.seconds);
      now->count -= then.count;
      if (now->count < 0) return std::nullopt;
    }
  }
  return gained;
}

std::optional<double> MetricSum(std::string_view page, std::string_view name,
                                std::string_view label) {
  std::optional<double> sum;
  while (!page.empty()) {
    const std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(page.size(), line.size() + 1));
    if (!line.starts_with(name)) continue;
    const std::string_view rest = line.substr(name.size());
    if (!rest.starts_with('{') && !rest.starts_with(' ')) continue;
    const size_t space = rest.rfind(' ');
    if (rest.substr(0, space).find(label) == std::string_view::npos) continue;
    double value = 0;
    const char* const end = rest.data() + rest.size();
    if (std::from_chars(rest.data() + space + 1, end, value).ec != std::errc()) continue;
    sum = sum.value_or(0) + value;
  }
  return sum;
}

std::string FetchMetrics(const net::BaseUrl& url, const std::string& api_key, bool insecure) {
  net::BaseUrl root = url;
  root.path.clear();
  const auto client = net::HttpClient::Open(root, api_key, insecure);
  if (!client.ok()) return "";
  const net::HttpClient::Reply reply = (*client)->Fetch("/metrics", "", kMetricsTimeout);
  return reply.status == 200 ? reply.body : "";
}

}  // namespace ropeway::loadgen
