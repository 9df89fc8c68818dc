// The metrics of a gateway. What an engine has too goes by the engine's names.
#ifndef ROPEWAY_GATEWAY_GATEWAY_METRICS_H_
#define ROPEWAY_GATEWAY_GATEWAY_METRICS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "core/class_metrics.h"
#include "gateway/dispatcher.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "service/front_desk.h"
#include "store/session_store.h"

namespace ropeway::gateway {

// What the gateway's parts count by themselves; the metrics follow when they are asked for.
struct GatewaySample {
  EngineStats stats;
  service::QueueInfo queue;  // All tenants together.
  DispatchCounts counts;     // All models together.
  std::vector<BackendStatus> backends;
  store::SessionStoreStats sessions;
};

// Thread-safe.
class GatewayMetrics {
 private:
  base::Metrics metrics_;  // First: what follows points into it.

 public:
  // With the latency limits of `options`.
  explicit GatewayMetrics(const QueueOptions& options);

  const core::RequestMetrics requests;
  // An accepted request ended; `times` is null where it has no output of its own to account for.
  void Ended(Priority priority, FinishReason reason, base::Duration after, const PhaseTimes* times,
             const Usage& usage);

  // All metrics in the Prometheus text format, after the sampled ones were set to `sample`.
  std::string Text(const GatewaySample& sample);

 private:
  using OfBackend = base::SampledMetrics<BackendStatus>;

  OfBackend MakeBackend(const BackendStatus& backend);

  base::Counter* const prompt_tokens_;
  base::Counter* const generation_tokens_;

  std::mutex mu_;  // Held while the following ones follow a sample.
  base::SampledMetrics<GatewaySample> sampled_;
  store::SessionMetrics sessions_;
  std::map<std::string, OfBackend> backends_;  // By name.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_GATEWAY_METRICS_H_
