// A registry of Prometheus metrics: a thin layer over prometheus-cpp.
#ifndef ROPEWAY_BASE_METRICS_H_
#define ROPEWAY_BASE_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ropeway::base {

using Counter = prometheus::Counter;      // Increment(by = 1)
using Gauge = prometheus::Gauge;          // Set(value)
using Histogram = prometheus::Histogram;  // Observe(value)

// Brings a counter up to what is counted elsewhere. One thread at a time for one counter.
void RaiseTo(Counter* counter, double value);

// Upper edges of buckets: 1-2.5-5 steps.
std::vector<double> LatencyBuckets();       // Seconds, 1 ms to 250 s: whole requests, queues.
std::vector<double> ShortLatencyBuckets();  // Seconds, 100 us to 10 s: tokens, steps.
std::vector<double> CountBuckets();         // Powers of two, 1 to 4096.

// Names are complete, with their unit: "ropeway_queue_time_seconds". The added metrics live as long
// as the registry and are thread-safe. Thread rule: every method from any thread.
class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;

  // The same name may be added again with other labels.
  Counter* AddCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge* AddGauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram* AddHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& buckets, const Labels& labels = {});

  // All metrics in the Prometheus text format.
  std::string Text() const;

 private:
  prometheus::Registry registry_;
};

// Metrics that follow a value of type S, which their owner takes when they are asked for.
// Thread rule: one thread at a time.
template <typename S>
class SampledMetrics {
 public:
  using ValueFn = std::function<double(const S&)>;

  // `metrics` must outlive it.
  explicit SampledMetrics(Metrics* metrics) : metrics_(metrics) {}

  // Adds a metric: a counter, which is raised, if its name ends in _total; else a gauge, which is
  // set.
  void Add(const std::string& name, const std::string& help, ValueFn value,
           const Metrics::Labels& labels = {}) {
    Row row{.value = std::move(value)};
    if (name.ends_with("_total")) {
      row.counter = metrics_->AddCounter(name, help, labels);
    } else {
      row.gauge = metrics_->AddGauge(name, help, labels);
    }
    rows_.push_back(std::move(row));
  }

  void Follow(const S& sample) const {
    for (const Row& row : rows_) {
      const double value = row.value(sample);
      if (row.gauge != nullptr) {
        row.gauge->Set(value);
      } else {
        RaiseTo(row.counter, value);
      }
    }
  }

 private:
  struct Row {
    ValueFn value;
    Counter* counter = nullptr;
    Gauge* gauge = nullptr;
  };

  Metrics* const metrics_;
  std::vector<Row> rows_;
};

// process_cpu_seconds_total, process_resident_memory_bytes and so on, read from /proc; what cannot
// be read is left out. Thread-safe.
std::vector<prometheus::MetricFamily> ProcessMetrics();

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_METRICS_H_
