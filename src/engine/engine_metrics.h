// The metrics of an engine: vLLM's nouns with the prefix "ropeway_" and the unit as suffix.
#ifndef ROPEWAY_ENGINE_ENGINE_METRICS_H_
#define ROPEWAY_ENGINE_ENGINE_METRICS_H_

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "engine/engine_core.h"
#include "kvcache/kv_tier.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "scheduler/scheduler_output.h"
#include "store/session_store.h"

namespace ropeway::engine {

// Of the requests of one priority class. Thread-safe.
class ClassMetrics {
 public:
  // The latencies beyond which a request of the class counts as late.
  struct Limits {
    base::Duration ttft{};     // To the first token.
    base::Duration latency{};  // To the end.
  };

  // `metrics` must outlive it.
  ClassMetrics(base::Metrics* metrics, Priority priority, const Limits& limits);

  // A first token was generated `after` its request's arrival.
  void FirstToken(base::Duration after) const;
  // A request ended, for whatever reason, `after` its arrival.
  void EndedAfter(base::Duration after) const;
  // A request ended that had generated a token.
  void Ended(const PhaseTimes& times) const;

  base::Histogram* const time_to_first_token;
  base::Histogram* const inter_token_latency;
  base::Histogram* const queue_time;
  base::Histogram* const formation_time;
  base::Histogram* const prefill_time;
  base::Histogram* const decode_time;
  base::Histogram* const output_time;
  base::Histogram* const e2e_latency;
  base::Gauge* const waiting;
  base::Gauge* const running;
  base::Gauge* const wait_seconds;  // Predicted.
  base::Counter* const late_first_tokens;
  base::Counter* const late_ends;

 private:
  const Limits limits_;
};

// Of the KV memory: the prefix cache, preemption and the tier; raised from the core's totals.
// Thread-safe.
class CacheMetrics {
 public:
  // `metrics` must outlive it.
  explicit CacheMetrics(base::Metrics* metrics);

  // Without a tier `usage` is ignored.
  void Set(const CoreStats& stats, bool has_tier, const kvcache::KvTierUsage& usage);

 private:
  // Raises the counter to `total`.
  static void RaiseTo(double total, base::Counter* counter);

  std::mutex mu_;
  base::Counter* const queries_;
  base::Counter* const hits_;
  base::Counter* const recomputed_;
  base::Counter* const evictions_;
  base::Counter* const spilled_;
  base::Counter* const stored_;
  base::Counter* const lost_;
  base::Counter* const fetched_;
  base::Counter* const failed_reads_;
  base::Counter* const fetch_seconds_;
  base::Gauge* const blocks_free_;
  base::Gauge* const blocks_cached_;
  base::Gauge* const blocks_held_;
  base::Gauge* const tier_on_;
  base::Gauge* const tier_bytes_;
  base::Gauge* const tier_capacity_;
  base::Gauge* const tier_blocks_;
  base::Gauge* const tier_pending_;
  base::Counter* const tier_written_;
  base::Counter* const tier_read_;
  base::Counter* const tier_rejected_;
  base::Counter* const tier_evicted_;
  base::Counter* const tier_cpu_;
};

// Of sessions. Thread-safe.
class SessionMetrics {
 public:
  // `metrics` must outlive it.
  explicit SessionMetrics(base::Metrics* metrics);

  // Turns that were encoded: the first ones of sessions, those that go on from the session's ids,
  base::Counter* const begun;
  base::Counter* const continued;
  base::Counter* const reencoded;  // and those whose chat had to be encoded anew as a whole.

  void Set(const store::SessionStoreStats& stats);

 private:
  base::Gauge* const sessions_;
  base::Gauge* const bytes_;
  base::Gauge* const unwritten_;
  base::Counter* const expired_;
  base::Counter* const lost_;
  base::Counter* const failed_writes_;
  std::mutex mu_;
  store::SessionStoreStats last_;  // Guarded by mu_.
};

// All of an engine's. Thread-safe.
class EngineMetrics {
 private:
  base::Metrics metrics_;  // First: what follows points into it.

 public:
  // `options`: the latency limits of the classes.
  explicit EngineMetrics(const SchedulingOptions& options = {});

  const ClassMetrics* of(Priority priority) const {
    return &classes_[static_cast<size_t>(priority)];
  }

  base::Histogram* const step_rows;
  base::Histogram* const step_time;
  base::Counter* const step_forward;     // Seconds of step_time: the forward pass without sampling,
  base::Counter* const step_sampling;    // the search for tokens in the logits,
  base::Counter* const step_scheduling;  // and the rest: scheduling, applying, emitting.
  base::Histogram* const batch_size;
  base::Counter* const busy_seconds;
  base::Counter* const slots_used;  // Seconds times slots while requests wait: slots in use,
  base::Counter* const slots_all;   // and all.
  base::Gauge* const max_running;
  base::Gauge* const attention_weight;
  base::Gauge* const speed;
  base::Counter* const prompt_tokens;
  base::Counter* const generation_tokens;
  base::Counter* const stalls;
  const std::unique_ptr<CacheMetrics> cache;
  const std::unique_ptr<SessionMetrics> sessions;
  base::Gauge* const trace_dropped;
  base::Counter* const
      rejected;  // Accepted by Submit, then ended by OnError before they were queued.

  // The strategy of batching, as a label of the gauge ropeway_batching_info. Called once.
  void SetStrategy(const std::string& strategy);

  // The KV cache's type and size, as labels (vLLM's cache_config_info). Called once.
  void SetCacheConfig(const std::string& cache_dtype, int block_tokens, int num_blocks);

  // Admitted requests by how they ended.
  base::Counter* finished(FinishReason reason) const {
    return finished_[static_cast<size_t>(reason)];
  }

  base::Counter* preemptions(scheduler::PreemptReason reason) const {
    return preemptions_[static_cast<size_t>(reason)];
  }
  // Sets the gauges of EngineStats, and raises its counters.
  void SetStats(const EngineStats& stats) const;
  // `count` requests wait, and `rule` keeps the first of them from starting.
  void SetWaiting(scheduler::BlockedBy rule, int count) const;

  // The kernels and their threads, as labels of the gauge ropeway_engine_info. Called once.
  void SetInfo(const std::string& kernels, int threads);

  std::string Text() const { return metrics_.Text(); }

 private:
  std::array<ClassMetrics, kNumPriorities> classes_;
  std::array<base::Counter*, 4> finished_;  // By FinishReason.
  std::array<base::Counter*, scheduler::kNumPreemptReasons> preemptions_;
  std::array<base::Gauge*, scheduler::kNumBlockedBy> waiting_by_;
  // Of EngineStats.
  base::Gauge* const num_running_;
  base::Gauge* const num_waiting_;
  base::Gauge* const kv_cache_usage_;
  base::Gauge* const batches_;
  base::Gauge* const batched_requests_;
  base::Gauge* const avg_batch_size_;
  base::Gauge* const avg_batch_duration_;
  base::Gauge* const max_batch_size_;
  base::Gauge* const max_batch_wait_;
  base::Gauge* const avg_step_rows_;
  base::Gauge* const utilization_;
  base::Gauge* const prompt_throughput_;
  base::Gauge* const generation_throughput_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_ENGINE_METRICS_H_
