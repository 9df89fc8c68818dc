#include "engine/engine_metrics.h"

namespace ropeway {
namespace {

constexpr const char* kPlaceSeconds = "ropeway_place_seconds_total";
constexpr const char* kPlaceSecondsHelp =
    "While requests wait, seconds of steps times places (max_num_seqs): those that were in use, "
    "and all.";

// As a metric's label.
const char* WaitReasonName(BlockedBy rule) {
  switch (rule) {
    case BlockedBy::kNothing:
      return "none";
    case BlockedBy::kPlaces:
      return "sequences";
    case BlockedBy::kTokens:
      return "budget";
    case BlockedBy::kBlocks:
      return "blocks";
    case BlockedBy::kPreemption:
      return "preemption";
    case BlockedBy::kLeader:
      return "prefix";
    case BlockedBy::kBatch:
      return "batch";
    case BlockedBy::kFairness:
      return "fairness";
  }
  return "unknown";
}

constexpr const char* kStepSeconds = "ropeway_step_seconds_total";
constexpr const char* kStepSecondsHelp =
    "The time of engine steps by what they did: forward (the model), sampling (the search for "
    "tokens in its logits), scheduling (all else: planning, dealing out the work, applying, "
    "emitting).";

}  // namespace

EngineMetrics::EngineMetrics(const TtftLimits& ttft_limits)
    : step_rows(metrics_.AddHistogram("ropeway_step_rows",
                                      "Rows (tokens of all sequences) of one forward pass.",
                                      CountBuckets())),
      step_time(metrics_.AddHistogram("ropeway_step_time_seconds",
                                      "One engine step, from scheduling to emitting.",
                                      ShortLatencyBuckets())),
      step_forward(metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "forward"}})),
      step_sampling(metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "sampling"}})),
      step_scheduling(
          metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "scheduling"}})),
      batch_size(metrics_.AddHistogram("ropeway_batch_size", "Sequences of one forward pass.",
                                       CountBuckets())),
      busy_seconds(
          metrics_.AddCounter("ropeway_busy_seconds_total", "Time in which the engine computed.")),
      places_used(metrics_.AddCounter(kPlaceSeconds, kPlaceSecondsHelp, {{"state", "used"}})),
      places_all(metrics_.AddCounter(kPlaceSeconds, kPlaceSecondsHelp, {{"state", "all"}})),
      max_running(metrics_.AddGauge("ropeway_max_running",
                                    "Sequences that may run at once by now (--batch-control).")),
      attention_weight(metrics_.AddGauge(
          "ropeway_attention_weight",
          "What attending to one position costs, in tokens, as measured (docs/scheduling.md).")),
      speed(metrics_.AddGauge("ropeway_cost_units_per_second",
                              "Work done per second of steps, in tokens plus weighted attended "
                              "positions; 0: not measured yet.")),
      prompt_tokens(metrics_.AddCounter(
          "ropeway_prompt_tokens_total",
          "Prompt tokens of requests that got their first token, or wanted none.")),
      generation_tokens(metrics_.AddCounter("ropeway_generation_tokens_total",
                                            "Tokens generated and delivered.")),
      stalls(metrics_.AddCounter("ropeway_engine_stalls_total",
                                 "How often the engine had work and made no progress for long.")),
      cache(std::make_unique<CacheMetrics>(&metrics_)),
      sessions(std::make_unique<SessionMetrics>(&metrics_)),
      trace_dropped(metrics_.AddGauge("ropeway_trace_dropped_events",
                                      "Events that are missing in the trace file, for its writer "
                                      "could not keep up.")),
      refused(metrics_.AddCounter("ropeway_request_refused_total",
                                  "Requests ended before they were queued: prompt too long, "
                                  "cancelled while it was encoded, and the like.")),
      classes_{ClassMetrics(&metrics_, Priority::kHigh, ttft_limits[0]),
               ClassMetrics(&metrics_, Priority::kMedium, ttft_limits[1]),
               ClassMetrics(&metrics_, Priority::kLow, ttft_limits[2])},
      num_running_(metrics_.AddGauge("ropeway_num_requests_running",
                                     "Requests that prefill or decode now.")),
      num_waiting_(metrics_.AddGauge(
          "ropeway_num_requests_waiting",
          "Requests accepted and not yet started, and preempted ones that wait to go on.")),
      kv_cache_usage_(metrics_.AddGauge("ropeway_kv_cache_usage_ratio",
                                        "Part of the KV cache's blocks that sequences hold.")),
      batches_(metrics_.AddGauge("ropeway_batches",
                                 "Batches begun; with continuous batching, steps that started "
                                 "requests.")),
      batched_requests_(
          metrics_.AddGauge("ropeway_batched_requests", "Requests that started in these batches.")),
      avg_batch_size_(metrics_.AddGauge("ropeway_batch_size_avg",
                                        "Requests that ran when a batch began, on average.")),
      avg_batch_duration_(metrics_.AddGauge(
          "ropeway_batch_duration_avg_seconds",
          "From a batch's start to the end of the last request that started in it, on average.")),
      max_batch_size_(metrics_.AddGauge("ropeway_batch_size_max",
                                        "Requests that one batch may hold; with continuous "
                                        "batching, one step.")),
      max_batch_wait_(metrics_.AddGauge("ropeway_batch_wait_max_seconds",
                                        "How long a batch waits to fill; 0: it does not wait.")),
      avg_step_rows_(metrics_.AddGauge("ropeway_step_rows_avg",
                                       "Rows (tokens of all requests) of a step, on average.")),
      utilization_(metrics_.AddGauge("ropeway_utilization_ratio",
                                     "Share of the last 10 seconds in which a step ran.")),
      prompt_throughput_(
          metrics_.AddGauge("ropeway_prompt_tokens_per_second",
                            "Prompt tokens computed per second, over the last 10 seconds.")),
      generation_throughput_(
          metrics_.AddGauge("ropeway_generation_tokens_per_second",
                            "Tokens generated per second, over the last 10 seconds.")) {
  for (int i = 0; i < kNumPreemptReasons; ++i) {
    preemptions_[static_cast<size_t>(i)] = metrics_.AddCounter(
        "ropeway_num_preemptions_total",
        "How often a sequence gave its place and blocks back, to go on later, by why.",
        {{"reason", PreemptReasonName(static_cast<PreemptReason>(i))}});
  }
  for (int i = 0; i < kNumBlockedBy; ++i) {
    waiting_by_[static_cast<size_t>(i)] =
        metrics_.AddGauge("ropeway_num_requests_waiting_by_reason",
                          "Requests that wait, by what keeps the first of them from starting.",
                          {{"reason", WaitReasonName(static_cast<BlockedBy>(i))}});
  }
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCancelled, FinishReason::kFailed}) {
    finished_[static_cast<size_t>(reason)] =
        metrics_.AddCounter("ropeway_request_success_total", "Requests that ended, by reason.",
                            {{"finished_reason", FinishReasonName(reason)}});
  }
}

void EngineMetrics::SetCacheConfig(const std::string& cache_dtype, int block_tokens,
                                   int num_blocks) {
  metrics_
      .AddGauge("ropeway_cache_config_info", "The KV cache's element type and its blocks.",
                {{"block_size", std::to_string(block_tokens)},
                 {"cache_dtype", cache_dtype},
                 {"num_blocks", std::to_string(num_blocks)}})
      ->Set(1);
}

void EngineMetrics::SetStats(const EngineStats& stats) const {
  const int blocks = stats.kv_blocks_free + stats.kv_blocks_held + stats.kv_blocks_cached;
  num_running_->Set(stats.running);
  num_waiting_->Set(stats.queue_depth);
  kv_cache_usage_->Set(blocks == 0 ? 0.0 : static_cast<double>(stats.kv_blocks_held) / blocks);
  batches_->Set(static_cast<double>(stats.total_batches));
  batched_requests_->Set(static_cast<double>(stats.total_requests));
  avg_batch_size_->Set(stats.avg_batch_size);
  avg_batch_duration_->Set(stats.avg_batch_duration_ms / 1e3);
  max_batch_size_->Set(stats.max_batch_size);
  max_batch_wait_->Set(stats.max_batch_wait_ms / 1e3);
  avg_step_rows_->Set(stats.avg_step_rows);
  utilization_->Set(stats.utilization);
  prompt_throughput_->Set(stats.prompt_tokens_per_second);
  generation_throughput_->Set(stats.generation_tokens_per_second);
}

void EngineMetrics::SetStrategy(const std::string& strategy) {
  metrics_
      .AddGauge("ropeway_batching_info", "How requests come together, as a label.",
                {{"strategy", strategy}})
      ->Set(1);
}

void EngineMetrics::SetWaiting(BlockedBy rule, int count) const {
  for (size_t i = 0; i < waiting_by_.size(); ++i) {
    waiting_by_[i]->Set(static_cast<BlockedBy>(i) == rule ? count : 0);
  }
}

void EngineMetrics::SetInfo(const std::string& kernels, int threads) {
  metrics_
      .AddGauge("ropeway_engine_info", "What computes: the table of kernels, and its threads.",
                {{"kernels", kernels}, {"threads", std::to_string(threads)}})
      ->Set(1);
}

}  // namespace ropeway
