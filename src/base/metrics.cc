#include "base/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>

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

}  // namespace ropeway::base
