#include "base/metrics.h"

#include <dirent.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <sstream>

#include "base/system.h"

namespace ropeway::base {
namespace {

// 1, 2.5 and 5 times each power of ten from 10^first, up to and with `last`.
std::vector<double> Decades(int first, double last) {
  std::vector<double> edges;
  double unit = 1.0;
  for (int i = first; i < 0; ++i) unit /= 10.0;
  while (true) {
    for (const double factor : {1.0, 2.5, 5.0}) {
      if (unit * factor > last * 1.001) return edges;
      edges.push_back(unit * factor);
    }
    unit *= 10.0;
  }
}

}  // namespace

void RaiseTo(Counter* counter, double value) {
  counter->Increment(std::max(0.0, value - counter->Value()));
}

std::vector<double> LatencyBuckets() { return Decades(-3, 250.0); }
std::vector<double> ShortLatencyBuckets() { return Decades(-4, 10.0); }

std::vector<double> CountBuckets() {
  std::vector<double> edges;
  for (int edge = 1; edge <= 4096; edge *= 2) edges.push_back(edge);
  return edges;
}

Counter* Metrics::AddCounter(const std::string& name, const std::string& help,
                             const Labels& labels) {
  return &prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
}

Gauge* Metrics::AddGauge(const std::string& name, const std::string& help, const Labels& labels) {
  return &prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
}

Histogram* Metrics::AddHistogram(const std::string& name, const std::string& help,
                                 const std::vector<double>& buckets, const Labels& labels) {
  return &prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels,
                                                                                     buckets);
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

namespace {

// /proc/stat has a line for each core, and one with each interrupt.
constexpr size_t kMostBytes = size_t{4} << 20;

void Add(const char* name, const char* help, prometheus::MetricType type, double value,
         std::vector<prometheus::MetricFamily>* families) {
  prometheus::MetricFamily& family = families->emplace_back();
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.counter.value = metric.gauge.value = value;
}

// /proc/self/stat from its third field on, which proc(5) numbers 3: the second one, the program's
// name, may hold spaces and brackets.
std::vector<double> StatFields() {
  const std::string text = ReadFile("/proc/self/stat", kMostBytes).value_or("");
  std::istringstream words(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string state;
  words >> state;
  return {std::istream_iterator<double>(words), {}};  // The fields from the fourth on.
}

// When the machine started, in Unix seconds.
std::optional<double> BootTime() {
  const std::string text = ReadFile("/proc/stat", kMostBytes).value_or("");
  const size_t at = text.find("\nbtime ");
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(text.c_str() + at + 7, nullptr);
}

// Includes the one that counting takes. By the C library: where memory runs out, an iterator of
// std::filesystem ends the process.
std::optional<double> OpenDescriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  double count = 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] == '.' ? 0 : 1;
  closedir(folder);
  return count;
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessMetrics() {
  using prometheus::MetricType;
  std::vector<prometheus::MetricFamily> all;
  const std::vector<double> stat = StatFields();
  const auto field = [&](size_t number) { return stat[number - 4]; };  // As proc(5) numbers them.
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (stat.size() > 24 - 4) {
    Add("process_cpu_seconds_total", "User and system CPU time of the process, in seconds.",
        MetricType::Counter, (field(14) + field(15)) / ticks, &all);
    Add("process_virtual_memory_bytes", "Virtual memory size, in bytes.", MetricType::Gauge,
        field(23), &all);
    Add("process_resident_memory_bytes", "Resident memory size, in bytes.", MetricType::Gauge,
        field(24) * static_cast<double>(sysconf(_SC_PAGESIZE)), &all);
    if (const std::optional<double> boot = BootTime()) {
      Add("process_start_time_seconds", "Start time of the process, in Unix seconds.",
          MetricType::Gauge, *boot + field(22) / ticks, &all);
    }
  }
  if (const std::optional<double> open = OpenDescriptors()) {
    Add("process_open_fds", "Number of open file descriptors.", MetricType::Gauge, *open, &all);
  }
  Add("process_max_fds", "Maximum number of open file descriptors.", MetricType::Gauge,
      static_cast<double>(DescriptorLimit()), &all);
  return all;
}

}  // namespace ropeway::base
