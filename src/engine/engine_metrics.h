// The metrics of an engine: vLLM's nouns with the prefix "ropeway_" and the unit as suffix.
#ifndef ROPEWAY_ENGINE_ENGINE_METRICS_H_
#define ROPEWAY_ENGINE_ENGINE_METRICS_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "core/class_metrics.h"
#include "engine/engine_core.h"
#include "engine/grammar_pool.h"
#include "kvcache/kv_tier.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "scheduler/queue_load.h"
#include "store/session_store.h"

namespace ropeway::engine {

// What the engine's parts count by themselves; the metrics follow when they are asked for.
struct EngineSample {
  CoreStats core;
  EngineStats engine;
  scheduler::LoadView load;
  kvcache::KvTierUsage tier{.on = false};
  store::SessionStoreStats sessions;
  GrammarStats grammars;
  uint64_t trace_dropped = 0;
};

// Turns of sessions that were encoded, by how. Thread-safe.
struct TurnMetrics {
  base::Counter* const begun;      // First turns of sessions.
  base::Counter* const continued;  // Turns that go on from the session's ids.
  base::Counter* const reencoded;  // Turns whose whole chat had to be encoded anew.
};

// All of an engine's. Thread-safe.
class EngineMetrics {
 private:
  base::Metrics metrics_;  // First: what follows points into it.

 public:
  // `options`: the latency limits of the classes.
  explicit EngineMetrics(const QueueOptions& options = {});

  // A prompt was encoded `after` its request's arrival.
  void Encoded(Priority priority, base::Duration after) const {
    encoding_time_[static_cast<size_t>(priority)]->Observe(base::ToSeconds(after));
  }

  base::Histogram* const step_rows;
  base::Histogram* const step_time;
  base::Counter* const step_forward;  // Seconds of step_time in the forward pass, without sampling.
  base::Counter* const step_sampling;    // Seconds of step_time in the search for tokens.
  base::Counter* const step_scheduling;  // The rest of step_time: scheduling, applying, emitting.
  base::Histogram* const batch_size;
  base::Counter* const busy_seconds;
  base::Counter* const slots_used;  // Seconds times slots in use, while requests wait.
  base::Counter* const slots_all;   // Seconds times all slots, while requests wait.
  base::Counter* const prompt_tokens;
  base::Counter* const generation_tokens;
  base::Counter* const stalls;
  // Accepted by Submit, then failed before they were queued.
  base::Counter* const rejected;
  const TurnMetrics turns;
  const core::RequestMetrics requests;
  base::RecentTimes recent_steps;  // By base::RealClock.

  // Adds a gauge that is 1 and tells something by its labels.
  void AddInfo(const char* name, const char* help, const base::Metrics::Labels& labels) {
    metrics_.AddGauge(name, help, labels)->Set(1);
  }

  // Adds a gauge that stays as it is.
  void AddGauge(const char* name, const char* help, double value) {
    metrics_.AddGauge(name, help)->Set(value);
  }

  // All metrics in the Prometheus text format, after the sampled ones were set to `sample`.
  std::string Text(const EngineSample& sample);

 private:
  void SampleRequests();
  void SampleBatching();
  void SampleCache();
  void SampleTier();
  void SampleGrammars();

  std::array<base::Histogram*, kNumPriorities> encoding_time_;
  store::SessionMetrics sessions_;  // GUARDED_BY(mu_)
  // Its rows are constant once constructed. GUARDED_BY(mu_)
  base::SampledMetrics<EngineSample> sampled_;
  std::mutex mu_;  // Held while the metrics are set to a sample.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_ENGINE_METRICS_H_
