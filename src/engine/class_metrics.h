// What the engine measures of the requests of one priority class.
#ifndef ROPEWAY_ENGINE_CLASS_METRICS_H_
#define ROPEWAY_ENGINE_CLASS_METRICS_H_

#include "base/clock.h"
#include "base/metrics.h"
#include "ropeway/request.h"

namespace ropeway {

// Thread-safe.
class ClassMetrics {
 public:
  // `metrics` must outlive it. `ttft_limit`: a first token that takes longer is late.
  ClassMetrics(Metrics* metrics, Priority priority, Duration ttft_limit);

  // A first token came so long after its request.
  void FirstToken(Duration after) const;
  // A request ended that had generated a token.
  void Ended(const PhaseTimes& times) const;

  Histogram* const time_to_first_token;
  Histogram* const inter_token_latency;
  Histogram* const queue_time;
  Histogram* const formation_time;
  Histogram* const prefill_time;
  Histogram* const decode_time;
  Histogram* const output_time;
  Histogram* const e2e_latency;
  Gauge* const waiting;
  Gauge* const running;
  Gauge* const wait_seconds;  // Predicted.
  Counter* const late;

 private:
  const Duration ttft_limit_;
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_CLASS_METRICS_H_
