// What an engine counts: vLLM's nouns with "ropeway_" before and the unit behind.
#ifndef ROPEWAY_ENGINE_ENGINE_METRICS_H_
#define ROPEWAY_ENGINE_ENGINE_METRICS_H_

#include <array>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "engine/cache_metrics.h"
#include "engine/class_metrics.h"
#include "engine/session_metrics.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "scheduler/schedule.h"

namespace ropeway {

// Thread-safe.
class EngineMetrics {
 private:
  Metrics metrics_;  // First: what follows points into it.

 public:
  using TtftLimits = std::array<std::chrono::milliseconds, kNumPriorities>;
  explicit EngineMetrics(const TtftLimits& ttft_limits = SchedulingOptions().ttft_limits);

  const ClassMetrics* of(Priority priority) const {
    return &classes_[static_cast<size_t>(priority)];
  }

  Histogram* const step_rows;
  Histogram* const step_time;
  Counter* const step_forward;     // Seconds of step_time: the forward pass without sampling,
  Counter* const step_sampling;    // the search for tokens in the logits,
  Counter* const step_scheduling;  // and the rest: scheduling, applying, emitting.
  Histogram* const batch_size;
  Counter* const busy_seconds;
  Counter* const places_used;  // Seconds times places, while somebody waits: those in use,
  Counter* const places_all;   // and all.
  Gauge* const max_running;
  Gauge* const attention_weight;
  Gauge* const speed;
  Counter* const prompt_tokens;
  Counter* const generation_tokens;
  Counter* const stalls;
  const std::unique_ptr<CacheMetrics> cache;
  const std::unique_ptr<SessionMetrics> sessions;
  Gauge* const trace_dropped;
  Counter* const refused;  // Accepted by Submit, then ended by OnError before it was queued.

  // The strategy of batching, as a label of the gauge ropeway_batching_info. Called once.
  void SetStrategy(const std::string& strategy);

  // What the KV cache is like, as labels (vLLM's cache_config_info). Called once.
  void SetCacheConfig(const std::string& cache_dtype, int block_tokens, int num_blocks);

  // Admitted requests by how they ended.
  Counter* finished(FinishReason reason) const { return finished_[static_cast<size_t>(reason)]; }

  Counter* preemptions(PreemptReason reason) const {
    return preemptions_[static_cast<size_t>(reason)];
  }
  // Sets the gauges of EngineStats, and raises its counters.
  void SetStats(const EngineStats& stats) const;
  // So many wait, and this keeps the first of them.
  void SetWaiting(BlockedBy rule, int count) const;

  // Says once what computes, as labels of the gauge ropeway_engine_info, which is 1.
  void SetInfo(const std::string& kernels, int threads);

  std::string Text() const { return metrics_.Text(); }

 private:
  std::array<ClassMetrics, kNumPriorities> classes_;
  std::array<Counter*, 4> finished_;  // By FinishReason.
  std::array<Counter*, kNumPreemptReasons> preemptions_;
  std::array<Gauge*, kNumBlockedBy> waiting_by_;
  // Of EngineStats.
  Gauge* const num_running_;
  Gauge* const num_waiting_;
  Gauge* const kv_cache_usage_;
  Gauge* const batches_;
  Gauge* const batched_requests_;
  Gauge* const avg_batch_size_;
  Gauge* const avg_batch_duration_;
  Gauge* const max_batch_size_;
  Gauge* const max_batch_wait_;
  Gauge* const avg_step_rows_;
  Gauge* const utilization_;
  Gauge* const prompt_throughput_;
  Gauge* const generation_throughput_;
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_ENGINE_METRICS_H_
