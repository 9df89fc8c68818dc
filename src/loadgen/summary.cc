#include "loadgen/summary.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/words.h"
#include "net/http_client.h"

namespace ropeway::loadgen {
double Quantile(const std::vector<double>& sorted, double p) {
  const double index = static_cast<double>(sorted.size() - 1) * p;
  const auto below = static_cast<size_t>(std::floor(index));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (index - std::floor(index)) * (sorted[above] - sorted[below]);
}

Distribution Describe(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  result.count = values.size();
  result.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  result.min = values.front();
  result.p50 = Quantile(values, 0.50);
  result.p90 = Quantile(values, 0.90);
  result.p99 = Quantile(values, 0.99);
  result.max = values.back();
  return result;
}

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

namespace {

std::optional<double> ParseSeconds(std::string_view text) {
  double unit = 1e-3;
  if (text.ends_with("us")) {
    unit = 1e-6;
    text.remove_suffix(2);
  } else if (text.ends_with("ms")) {
    text.remove_suffix(2);
  } else if (text.ends_with('s')) {
    unit = 1;
    text.remove_suffix(1);
  }
  const std::optional<double> value = base::ParseNumber<double>(text);
  if (!value || !std::isfinite(*value) || *value <= 0) return std::nullopt;
  return *value * unit;
}

bool IsGood(const RequestRecord& record, const GoodputLimits& limits) {
  if (limits.ttft && (!record.ttft || *record.ttft > *limits.ttft)) return false;
  const std::optional<double> tpot = TimePerOutputToken(record);
  // An answer of one token has no second one that could be late.
  if (limits.tpot && tpot && *tpot > *limits.tpot) return false;
  return !limits.e2e || record.latency <= *limits.e2e;
}

// The measurements that distributions are made of.
struct Samples {
  std::vector<double> input, output, ttft, itl, tpot, e2e, promises;

  void Add(const RequestRecord& record) {
    input.push_back(static_cast<double>(record.input_tokens));
    output.push_back(static_cast<double>(record.output_tokens));
    e2e.push_back(record.latency);
    if (record.ttft) ttft.push_back(*record.ttft);
    if (const auto value = TimePerOutputToken(record)) tpot.push_back(*value);
    itl.insert(itl.end(), record.gaps.begin(), record.gaps.end());
    if (record.promised.value_or(0) > 0) promises.push_back(record.waited / *record.promised);
  }
};

void Count(const RequestRecord& record, const GoodputLimits& limits, Summary* summary) {
  if (record.error_kind == net::http_error::kInterrupted) {
    ++summary->interrupted;
  } else if (!record.ok()) {
    ++summary->failed;
    ++summary->errors[record.error_kind];
    summary->first.emplace(record.error_kind, record.error);
  } else {
    ++summary->succeeded;
    summary->input_tokens += record.input_tokens;
    summary->output_tokens += record.output_tokens;
    summary->estimated += record.estimated ? 1 : 0;
    summary->good += limits.any() && IsGood(record, limits) ? 1 : 0;
  }
}

}  // namespace

StatusOr<GoodputLimits> ParseGoodput(const std::vector<std::string>& limits) {
  GoodputLimits result;
  for (const std::string& limit : limits) {
    const size_t colon = std::min(limit.find(':'), limit.size());
    const std::string name = limit.substr(0, colon);
    std::optional<double>* const target = name == "ttft"                    ? &result.ttft
                                          : name == "tpot"                  ? &result.tpot
                                          : name == "e2e" || name == "e2el" ? &result.e2e
                                                                            : nullptr;
    const auto seconds =
        ParseSeconds(colon < limit.size() ? std::string_view(limit).substr(colon + 1) : "");
    if (target == nullptr || !seconds) {
      return InvalidArgument(
          fmt::format("--goodput: expected limits such as ttft:500ms tpot:50ms e2e:10s, not '{}'.",
                      limit),
          "goodput");
    }
    *target = *seconds;
  }
  return result;
}

std::optional<double> TimePerOutputToken(const RequestRecord& record) {
  if (!record.ttft || record.output_tokens < 2) return std::nullopt;
  return (record.latency - *record.ttft) / static_cast<double>(record.output_tokens - 1);
}

Summary Summarize(const std::vector<const RunResult*>& runs, const GoodputLimits& limits,
                  int cpus) {
  Summary summary;
  Samples samples;
  for (const RunResult* run : runs) {
    summary.wall_seconds += run->wall_seconds;
    summary.cpu_seconds += run->cpu_seconds;
    if (run->server) {
      if (!summary.server) summary.server.emplace();
      summary.server->Add(*run->server);
    }
    for (const RequestRecord& record : run->records) {
      Count(record, limits, &summary);
      if (record.ok()) samples.Add(record);
      summary.retried += record.tries > 1 ? 1 : 0;
      summary.most_tries = std::max(summary.most_tries, record.tries);
    }
  }
  if (summary.wall_seconds > 0) {
    summary.cpu_share = summary.cpu_seconds / (summary.wall_seconds * cpus);
  }
  summary.input_lengths = Describe(std::move(samples.input));
  summary.output_lengths = Describe(std::move(samples.output));
  summary.ttft = Describe(std::move(samples.ttft));
  summary.itl = Describe(std::move(samples.itl));
  summary.tpot = Describe(std::move(samples.tpot));
  summary.e2e = Describe(std::move(samples.e2e));
  summary.waited_to_promised = Describe(std::move(samples.promises));
  return summary;
}

int MachineCpus() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

}  // namespace ropeway::loadgen
