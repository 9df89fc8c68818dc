// The metrics that an engine and a gateway both have of the requests of one priority class.
#ifndef ROPEWAY_CORE_CLASS_METRICS_H_
#define ROPEWAY_CORE_CLASS_METRICS_H_

#include <array>
#include <cstddef>
#include <memory>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/recent_times.h"
#include "ropeway/options.h"
#include "ropeway/request.h"

namespace ropeway::core {

// What requests of all classes took in the last minute and hour, by base::RealClock. Thread-safe.
struct RecentLatencies {
  base::RecentTimes ttft;         // From arrival to the first token.
  base::RecentTimes inter_token;  // Between two tokens of a request.
  base::RecentTimes e2e;          // From arrival to the end.
  base::RecentTimes late;  // What was beyond a limit of its class: to the first token or end.
};

// The metrics of the requests of one class. In a gateway, a request starts when it is sent to a
// backend, and the pieces of its output stand for tokens. Thread-safe.
class ClassMetrics {
 public:
  // The latencies beyond which a request of the class counts as late.
  struct Limits {
    base::Duration ttft{};     // To the first token.
    base::Duration latency{};  // To the end.
  };

  // Both pointers must outlive it.
  ClassMetrics(base::Metrics* metrics, RecentLatencies* recent, Priority priority,
               const Limits& limits);

  // A request started `after` its arrival. `formation`: how much of this it waited for others to
  // fill its batch.
  void Started(base::Duration after, base::Duration formation) const;
  // A first token was generated `after` its request's arrival.
  void FirstToken(base::Duration after) const;
  // Another one, `since` the last.
  void Token(base::Duration since) const;
  // A request ended, for whatever reason, `after` its arrival: see RequestMetrics::Ended.
  void EndedAfter(base::Duration after) const;
  // A request ended that had generated a token, or wanted none and was computed.
  void Ended(const PhaseTimes& times) const;
  // What waits and runs now, and the predicted wait of a new request.
  void SetQueue(int waiting, int running, double wait_seconds) const;

 private:
  base::Histogram* const ttft_;
  base::Histogram* const inter_token_;
  base::Histogram* const queue_;
  base::Histogram* const formation_;
  base::Histogram* const prefill_;
  base::Histogram* const decode_;
  base::Histogram* const output_;
  base::Histogram* const e2e_;
  base::Counter* const late_first_tokens_;
  base::Counter* const late_ends_;
  base::Gauge* const waiting_;
  base::Gauge* const running_;
  base::Gauge* const expected_wait_;
  RecentLatencies* const recent_;
  const Limits limits_;
};

// The metrics of all admitted requests. Thread-safe.
class RequestMetrics {
 public:
  // With the latency limits of `options`. `metrics` must outlive it.
  RequestMetrics(base::Metrics* metrics, const QueueOptions& options);

  const ClassMetrics& of(Priority priority) const {
    return classes_[static_cast<size_t>(priority)];
  }
  // A request ended for `reason`, `after` its arrival.
  void Ended(Priority priority, FinishReason reason, base::Duration after) const;
  const RecentLatencies& recent() const { return *recent_; }

 private:
  const std::unique_ptr<RecentLatencies> recent_ = std::make_unique<RecentLatencies>();
  const std::array<ClassMetrics, kNumPriorities> classes_;  // By Priority.
  std::array<base::Counter*, 4> ended_{};                   // By FinishReason.
};

// The label of a metric of the class.
base::Metrics::Labels LabelsOf(Priority priority);

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_CLASS_METRICS_H_
