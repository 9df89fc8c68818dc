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

namespace ropeway {

// Of the requests of one priority class. Thread-safe.
class ClassMetrics {
 public:
  // The latencies beyond which a request of the class counts as late.
  struct Limits {
    Duration ttft{};     // To the first token.
    Duration latency{};  // To the end.
  };

  // `metrics` must outlive it.
  ClassMetrics(Metrics* metrics, Priority priority, const Limits& limits);

  // A first token was generated `after` its request's arrival.
  void FirstToken(Duration after) const;
  // A request ended, for whatever reason, `after` its arrival.
  void EndedAfter(Duration after) const;
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
  Counter* const late_first_tokens;
  Counter* const late_ends;

 private:
  const Limits limits_;
};

// Of the KV memory: the prefix cache, preemption and the tier; raised from the core's totals.
// Thread-safe.
class CacheMetrics {
 public:
  // `metrics` must outlive it.
  explicit CacheMetrics(Metrics* metrics);

  // Without a tier `usage` is ignored.
  void Set(const CoreStats& stats, bool has_tier, const KvTierUsage& usage);

 private:
  // Raises the counter to `total`.
  static void RaiseTo(double total, Counter* counter);

  std::mutex mu_;
  Counter* const queries_;
  Counter* const hits_;
  Counter* const recomputed_;
  Counter* const evictions_;
  Counter* const spilled_;
  Counter* const stored_;
  Counter* const lost_;
  Counter* const fetched_;
  Counter* const failed_reads_;
  Counter* const fetch_seconds_;
  Gauge* const blocks_free_;
  Gauge* const blocks_cached_;
  Gauge* const blocks_held_;
  Gauge* const tier_on_;
  Gauge* const tier_bytes_;
  Gauge* const tier_capacity_;
  Gauge* const tier_blocks_;
  Gauge* const tier_pending_;
  Counter* const tier_written_;
  Counter* const tier_read_;
  Counter* const tier_rejected_;
  Counter* const tier_evicted_;
  Counter* const tier_cpu_;
};

// Of sessions. Thread-safe.
class SessionMetrics {
 public:
  // `metrics` must outlive it.
  explicit SessionMetrics(Metrics* metrics);

  // Turns that were encoded: the first ones of sessions, those that go on from the session's ids,
  Counter* const begun;
  Counter* const continued;
  Counter* const reencoded;  // and those whose chat had to be encoded anew as a whole.

  void Set(const SessionStoreStats& stats);

 private:
  Gauge* const sessions_;
  Gauge* const bytes_;
  Gauge* const unwritten_;
  Counter* const expired_;
  Counter* const lost_;
  Counter* const failed_writes_;
  std::mutex mu_;
  SessionStoreStats last_;  // Guarded by mu_.
};

// All of an engine's. Thread-safe.
class EngineMetrics {
 private:
  Metrics metrics_;  // First: what follows points into it.

 public:
  // `options`: the latency limits of the classes.
  explicit EngineMetrics(const SchedulingOptions& options = {});

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
  Counter* const slots_used;  // Seconds times slots while requests wait: slots in use,
  Counter* const slots_all;   // and all.
  Gauge* const max_running;
  Gauge* const attention_weight;
  Gauge* const speed;
  Counter* const prompt_tokens;
  Counter* const generation_tokens;
  Counter* const stalls;
  const std::unique_ptr<CacheMetrics> cache;
  const std::unique_ptr<SessionMetrics> sessions;
  Gauge* const trace_dropped;
  Counter* const rejected;  // Accepted by Submit, then ended by OnError before they were queued.

  // The strategy of batching, as a label of the gauge ropeway_batching_info. Called once.
  void SetStrategy(const std::string& strategy);

  // The KV cache's type and size, as labels (vLLM's cache_config_info). Called once.
  void SetCacheConfig(const std::string& cache_dtype, int block_tokens, int num_blocks);

  // Admitted requests by how they ended.
  Counter* finished(FinishReason reason) const { return finished_[static_cast<size_t>(reason)]; }

  Counter* preemptions(PreemptReason reason) const {
    return preemptions_[static_cast<size_t>(reason)];
  }
  // Sets the gauges of EngineStats, and raises its counters.
  void SetStats(const EngineStats& stats) const;
  // `count` requests wait, and `rule` keeps the first of them from starting.
  void SetWaiting(BlockedBy rule, int count) const;

  // The kernels and their threads, as labels of the gauge ropeway_engine_info. Called once.
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
