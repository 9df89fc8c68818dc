// The metrics that an engine and a gateway both have of the requests of one priority class.
#ifndef ROPEWAY_BASE_CLASS_METRICS_H_
#define ROPEWAY_BASE_CLASS_METRICS_H_

#include <array>
#include <chrono>

#include "base/clock.h"
#include "base/metrics.h"
#include "ropeway/request.h"

namespace ropeway::base {

// Of the requests of one class. Of a gateway, a request starts when it is sent to a backend, and
// the pieces of its output stand for tokens. Thread-safe.
class ClassMetrics {
 public:
  // The latencies beyond which a request of the class counts as late.
  struct Limits {
    Duration ttft{};     // To the first token.
    Duration latency{};  // To the end.
  };

  // `metrics` must outlive it.
  ClassMetrics(Metrics* metrics, Priority priority, const Limits& limits);

  // A request started `after` its arrival; of this, it waited for others to fill its batch.
  void Started(Duration after, Duration formation) const;
  // A first token was generated `after` its request's arrival.
  void FirstToken(Duration after) const;
  // Another one, `since` the last.
  void Token(Duration since) const;
  // A request ended, for whatever reason, `after` its arrival.
  void EndedAfter(Duration after) const;
  // A request ended that had generated a token, or wanted none and was computed.
  void Ended(const PhaseTimes& times) const;
  // What waits and runs now, and the predicted wait of a new request.
  void SetQueue(int waiting, int running, double wait_seconds) const;

 private:
  Histogram* const ttft_;
  Histogram* const inter_token_;
  Histogram* const queue_;
  Histogram* const formation_;
  Histogram* const prefill_;
  Histogram* const decode_;
  Histogram* const output_;
  Histogram* const e2e_;
  Counter* const late_first_tokens_;
  Counter* const late_ends_;
  Gauge* const waiting_;
  Gauge* const running_;
  Gauge* const expected_wait_;
  const Limits limits_;
};

// The limits by class, as options have them.
using ClassLimits = std::array<std::chrono::milliseconds, kNumPriorities>;

// Those of all classes, by Priority. `metrics` must outlive them.
std::array<ClassMetrics, kNumPriorities> MakeClassMetrics(Metrics* metrics, const ClassLimits& ttft,
                                                          const ClassLimits& latency);

// The label of a metric of the class.
Metrics::Labels LabelsOf(Priority priority);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_CLASS_METRICS_H_
