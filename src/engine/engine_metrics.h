// What an engine counts: vLLM's nouns with "ropeway_" before and the unit behind.
#ifndef ROPEWAY_ENGINE_ENGINE_METRICS_H_
#define ROPEWAY_ENGINE_ENGINE_METRICS_H_

#include <array>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "engine/cache_metrics.h"
#include "engine/session_metrics.h"
#include "ropeway/request.h"

namespace ropeway {

// Thread-safe.
class EngineMetrics {
 private:
  Metrics metrics_;  // First: what follows points into it.

 public:
  EngineMetrics();

  Histogram* const time_to_first_token;
  Histogram* const inter_token_latency;
  Histogram* const queue_time;
  Histogram* const e2e_latency;
  Histogram* const step_rows;
  Histogram* const step_time;
  Counter* const step_forward;     // Seconds of step_time: the forward pass without sampling,
  Counter* const step_sampling;    // the search for tokens in the logits,
  Counter* const step_scheduling;  // and the rest: scheduling, applying, emitting.
  Gauge* const num_running;
  Gauge* const num_waiting;
  Gauge* const kv_cache_usage;
  Counter* const preemptions;
  Counter* const prompt_tokens;
  Counter* const generation_tokens;
  Counter* const stalls;
  const std::unique_ptr<CacheMetrics> cache;
  const std::unique_ptr<SessionMetrics> sessions;
  Gauge* const trace_dropped;
  Counter* const refused;  // Accepted by Submit, then ended by OnError before it was queued.

  // What the KV cache is like, as labels (vLLM's cache_config_info). Called once.
  void SetCacheConfig(const std::string& cache_dtype, int block_tokens, int num_blocks);

  // Admitted requests by how they ended.
  Counter* finished(FinishReason reason) const { return finished_[static_cast<size_t>(reason)]; }

  // Says once what computes, as labels of the gauge ropeway_engine_info, which is 1.
  void SetInfo(const std::string& kernels, int threads);

  std::string Text() const { return metrics_.Text(); }

 private:
  std::array<Counter*, 4> finished_;  // By FinishReason.
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_ENGINE_METRICS_H_
