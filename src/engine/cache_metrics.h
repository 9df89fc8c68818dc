// What the KV memory counts, as metrics: the prefix cache, preemption and the tier.
#ifndef ROPEWAY_ENGINE_CACHE_METRICS_H_
#define ROPEWAY_ENGINE_CACHE_METRICS_H_

#include <mutex>

#include "base/metrics.h"
#include "engine/engine_core.h"
#include "kvcache/kv_tier.h"

namespace ropeway {

// Brought up to date from the core's numbers, which only grow. Thread-safe.
class CacheMetrics {
 public:
  // `metrics` must outlive it.
  explicit CacheMetrics(Metrics* metrics);

  // `usage` is of no meaning where there is no tier.
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

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_CACHE_METRICS_H_
