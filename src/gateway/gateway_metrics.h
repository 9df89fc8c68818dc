// The metrics of a gateway. What an engine has too goes by the engine's names.
#ifndef ROPEWAY_GATEWAY_GATEWAY_METRICS_H_
#define ROPEWAY_GATEWAY_GATEWAY_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "core/class_metrics.h"
#include "gateway/dispatcher.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "service/front_desk.h"
#include "store/session_metrics.h"
#include "store/session_store.h"

namespace ropeway::gateway {

// What the gateway's parts count by themselves; the metrics follow when they are asked for.
struct GatewaySample {
  EngineStats stats;
  service::QueueInfo queue;  // Of all tenants.
  DispatchCounts counts;     // Of all models.
  std::vector<BackendStatus> backends;
  store::SessionStoreStats sessions;
};

// Thread-safe.
class GatewayMetrics {
 private:
  base::Metrics metrics_;  // First: what follows points into it.

 public:
  // The latencies by class beyond which a request counts as late: to its first token, and to its
  // end.
  explicit GatewayMetrics(const QueueOptions& options);

  const core::ClassMetrics& of(Priority priority) const {
    return classes_[static_cast<size_t>(priority)];
  }
  // An accepted request ended; `times` is null where it has no output of its own to account for.
  void Ended(Priority priority, FinishReason reason, base::Duration after, const PhaseTimes* times,
             const Usage& usage);

  // All metrics in the Prometheus text format, with those of `sample` brought up to it.
  std::string Text(const GatewaySample& sample);

 private:
  struct OfBackend {
    std::map<std::string, base::Gauge*> states;  // By name; 1 for the one that it is in.
    base::Gauge* in_flight = nullptr;
    base::Gauge* concurrency = nullptr;
    base::Gauge* outstanding_tokens = nullptr;
    base::Gauge* p50 = nullptr;
    base::Gauge* p99 = nullptr;
    // A counter, and what it follows.
    std::vector<std::pair<base::Counter*, uint64_t BackendStatus::*>> counters;
  };

  OfBackend MakeBackend(const BackendStatus& backend);
  // The next two: REQUIRES: mu_ is held.
  void Follow(const BackendStatus& backend);
  void FollowTotals(const GatewaySample& sample);

  const std::array<core::ClassMetrics, kNumPriorities> classes_;
  std::array<base::Counter*, 4> finished_{};  // By FinishReason.
  base::Counter* const prompt_tokens_;
  base::Counter* const generation_tokens_;
  base::Gauge* const waiting_;
  base::Gauge* const running_;
  base::Gauge* const batch_size_avg_;
  base::Gauge* const batch_duration_avg_;
  base::Gauge* const batch_size_max_;
  base::Gauge* const batch_wait_max_;
  // A counter, and what it follows.
  std::vector<std::pair<base::Counter*, uint64_t DispatchCounts::*>> totals_;

  std::mutex mu_;                              // Held while they follow a sample.
  std::map<std::string, OfBackend> backends_;  // By name.
  store::SessionMetrics sessions_;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_GATEWAY_METRICS_H_
