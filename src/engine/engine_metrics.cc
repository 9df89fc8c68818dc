#include "engine/engine_metrics.h"

namespace ropeway::engine {
namespace {

constexpr const char* kSlotSeconds = "ropeway_slot_seconds_total";
constexpr const char* kSlotSecondsHelp =
    "While requests wait, seconds of steps times slots (max_num_seqs): slots in use, and all.";

// As a metric's label.
const char* WaitReasonName(scheduler::BlockedBy rule) {
  switch (rule) {
    case scheduler::BlockedBy::kNothing:
      return "none";
    case scheduler::BlockedBy::kSlots:
      return "sequences";
    case scheduler::BlockedBy::kTokens:
      return "budget";
    case scheduler::BlockedBy::kBlocks:
      return "blocks";
    case scheduler::BlockedBy::kPreemption:
      return "preemption";
    case scheduler::BlockedBy::kLeader:
      return "prefix";
    case scheduler::BlockedBy::kBatch:
      return "batch";
    case scheduler::BlockedBy::kFairness:
      return "fairness";
  }
  return "unknown";
}

constexpr const char* kStepSeconds = "ropeway_step_seconds_total";
constexpr const char* kStepSecondsHelp =
    "The time of engine steps by what they did: forward (the model), sampling (the search for "
    "tokens in its logits), scheduling (all else: planning, dealing out the work, applying, "
    "emitting).";

base::Metrics::Labels LabelsOf(Priority priority) { return {{"priority", PriorityName(priority)}}; }

base::Histogram* Latency(base::Metrics* metrics, Priority priority, const char* name,
                         const char* help) {
  return metrics->AddHistogram(name, help, base::LatencyBuckets(), LabelsOf(priority));
}

constexpr const char* kBlocks = "ropeway_kv_cache_blocks";
constexpr const char* kBlocksHelp =
    "KV blocks by state: held by sequences, cached for later, free.";

constexpr const char* kTurns = "ropeway_session_turns_total";
constexpr const char* kTurnsHelp =
    "Turns of sessions by how their prompt came about: begun (the session's first), continued "
    "(from "
    "the session's token ids), reencoded (the whole chat, which its template changed).";

ClassMetrics::Limits LimitsOf(const SchedulingOptions& options, size_t priority) {
  return {.ttft = options.ttft_limits[priority], .latency = options.latency_limits[priority]};
}

}  // namespace

ClassMetrics::ClassMetrics(base::Metrics* metrics, Priority priority, const Limits& limits)
    : time_to_first_token(
          Latency(metrics, priority, "ropeway_time_to_first_token_seconds",
                  "From the request's arrival to its first generated token, by class.")),
      inter_token_latency(
          metrics->AddHistogram("ropeway_inter_token_latency_seconds",
                                "Between two generated tokens of one request, by class.",
                                base::ShortLatencyBuckets(), LabelsOf(priority))),
      queue_time(Latency(metrics, priority, "ropeway_request_queue_time_seconds",
                         "From the request's arrival to its first step, by class.")),
      formation_time(
          Latency(metrics, priority, "ropeway_request_formation_time_seconds",
                  "Of the time in the queue, what a request waited for others to fill its batch.")),
      prefill_time(Latency(metrics, priority, "ropeway_request_prefill_time_seconds",
                           "From the request's first step to its first token.")),
      decode_time(Latency(metrics, priority, "ropeway_request_decode_time_seconds",
                          "From the request's first token to its last.")),
      output_time(Latency(metrics, priority, "ropeway_request_output_time_seconds",
                          "From the request's last token to the report of its end.")),
      e2e_latency(Latency(metrics, priority, "ropeway_e2e_request_latency_seconds",
                          "From the request's arrival to its end, by class.")),
      waiting(metrics->AddGauge("ropeway_queue_depth",
                                "Requests of the class that wait, preempted ones too.",
                                LabelsOf(priority))),
      running(metrics->AddGauge("ropeway_class_running", "Requests of the class that run.",
                                LabelsOf(priority))),
      wait_seconds(metrics->AddGauge("ropeway_expected_wait_seconds",
                                     "How long a request of the class that came now would wait.",
                                     LabelsOf(priority))),
      late_first_tokens(metrics->AddCounter(
          "ropeway_ttft_limit_violations_total",
          "First tokens that took longer than their class's limit.", LabelsOf(priority))),
      late_ends(metrics->AddCounter(
          "ropeway_e2e_limit_violations_total",
          "Requests that took longer, from arrival to end, than their class's limit.",
          LabelsOf(priority))),
      limits_(limits) {
  metrics
      ->AddGauge("ropeway_ttft_limit_seconds", "The class's limit on the time to the first token.",
                 LabelsOf(priority))
      ->Set(base::ToSeconds(limits.ttft));
  metrics
      ->AddGauge("ropeway_e2e_limit_seconds",
                 "The class's limit on the latency from arrival to end.", LabelsOf(priority))
      ->Set(base::ToSeconds(limits.latency));
}

void ClassMetrics::FirstToken(base::Duration after) const {
  time_to_first_token->Observe(base::ToSeconds(after));
  if (after > limits_.ttft) late_first_tokens->Increment();
}

void ClassMetrics::EndedAfter(base::Duration after) const {
  e2e_latency->Observe(base::ToSeconds(after));
  if (after > limits_.latency) late_ends->Increment();
}

void ClassMetrics::Ended(const PhaseTimes& times) const {
  prefill_time->Observe(base::ToSeconds(times.prefill));
  decode_time->Observe(base::ToSeconds(times.decode));
  output_time->Observe(base::ToSeconds(times.output));
}

CacheMetrics::CacheMetrics(base::Metrics* metrics)
    : queries_(metrics->AddCounter("ropeway_prefix_cache_queries_total",
                                   "Prompt tokens of requests that began to compute.")),
      hits_(metrics->AddCounter("ropeway_prefix_cache_hits_total",
                                "Of these, tokens found in the pool or read from the disk tier.")),
      recomputed_(metrics->AddCounter("ropeway_recomputed_tokens_total",
                                      "Tokens computed again because a preempted request's blocks "
                                      "were gone.")),
      evictions_(metrics->AddCounter("ropeway_kv_cache_evictions_total",
                                     "Cached blocks evicted from the pool.")),
      spilled_(metrics->AddCounter("ropeway_kv_disk_spilled_blocks_total",
                                   "Evicted blocks handed to the disk tier.")),
      stored_(metrics->AddCounter("ropeway_kv_disk_stored_blocks_total",
                                  "Blocks handed to the disk tier, for whatever reason.")),
      lost_(metrics->AddCounter("ropeway_kv_disk_lost_blocks_total",
                                "Evicted blocks that the disk tier could not take.")),
      fetched_(metrics->AddCounter("ropeway_kv_disk_fetched_blocks_total",
                                   "Blocks read back into the pool.")),
      failed_reads_(metrics->AddCounter("ropeway_kv_disk_failed_reads_total",
                                        "Reads that brought less than was asked for.")),
      fetch_seconds_(metrics->AddCounter("ropeway_kv_disk_fetch_seconds_total",
                                         "Time that requests waited for reads.")),
      blocks_free_(metrics->AddGauge(kBlocks, kBlocksHelp, {{"state", "free"}})),
      blocks_cached_(metrics->AddGauge(kBlocks, kBlocksHelp, {{"state", "cached"}})),
      blocks_held_(metrics->AddGauge(kBlocks, kBlocksHelp, {{"state", "held"}})),
      tier_on_(
          metrics->AddGauge("ropeway_kv_disk_on",
                            "1 while the disk tier works; 0: none, or turned off by an error.")),
      tier_bytes_(metrics->AddGauge("ropeway_kv_disk_bytes", "Bytes that the disk tier takes.")),
      tier_capacity_(
          metrics->AddGauge("ropeway_kv_disk_capacity_bytes", "Bytes that it may take.")),
      tier_blocks_(metrics->AddGauge("ropeway_kv_disk_blocks", "Blocks in the disk tier.")),
      tier_pending_(metrics->AddGauge("ropeway_kv_disk_pending_bytes",
                                      "Bytes of memory on their way to or from it.")),
      tier_written_(
          metrics->AddCounter("ropeway_kv_disk_written_bytes_total", "Bytes of blocks written.")),
      tier_read_(metrics->AddCounter("ropeway_kv_disk_read_bytes_total", "Bytes of blocks read.")),
      tier_rejected_(metrics->AddCounter("ropeway_kv_disk_rejected_blocks_total",
                                         "Blocks found torn, foreign or corrupt; never served.")),
      tier_evicted_(metrics->AddCounter("ropeway_kv_disk_evicted_blocks_total",
                                        "Blocks dropped from the disk tier for space.")),
      tier_cpu_(metrics->AddCounter("ropeway_kv_disk_cpu_seconds_total",
                                    "CPU time of the disk tier's threads.")) {}

void CacheMetrics::RaiseTo(double total, base::Counter* counter) {
  const double by = total - counter->Value();
  if (by > 0) counter->Increment(by);
}

void CacheMetrics::Set(const CoreStats& stats, bool has_tier, const kvcache::KvTierUsage& usage) {
  const std::lock_guard lock(mu_);
  const auto raise = [](uint64_t total, base::Counter* counter) {
    RaiseTo(static_cast<double>(total), counter);
  };
  raise(stats.prompt_tokens, queries_);
  raise(stats.cached_prompt_tokens, hits_);
  raise(stats.recomputed_tokens, recomputed_);
  raise(stats.evicted_blocks, evictions_);
  raise(stats.transfers.spilled_blocks, spilled_);
  raise(stats.transfers.stored_blocks, stored_);
  raise(stats.transfers.lost_blocks, lost_);
  raise(stats.transfers.fetched_blocks, fetched_);
  raise(stats.transfers.failed_reads, failed_reads_);
  RaiseTo(base::ToSeconds(stats.transfers.fetch_time), fetch_seconds_);
  blocks_free_->Set(stats.free_blocks);
  blocks_cached_->Set(stats.cached_blocks);
  blocks_held_->Set(stats.held_blocks);
  tier_on_->Set(has_tier && usage.on ? 1 : 0);
  if (!has_tier) return;
  tier_bytes_->Set(static_cast<double>(usage.bytes));
  tier_capacity_->Set(static_cast<double>(usage.capacity_bytes));
  tier_blocks_->Set(static_cast<double>(usage.blocks));
  tier_pending_->Set(static_cast<double>(usage.pending_bytes));
  raise(usage.written_bytes, tier_written_);
  raise(usage.read_bytes, tier_read_);
  raise(usage.rejected_blocks, tier_rejected_);
  raise(usage.evicted_blocks, tier_evicted_);
  RaiseTo(usage.cpu_seconds, tier_cpu_);
}

SessionMetrics::SessionMetrics(base::Metrics* metrics)
    : begun(metrics->AddCounter(kTurns, kTurnsHelp, {{"prompt", "begun"}})),
      continued(metrics->AddCounter(kTurns, kTurnsHelp, {{"prompt", "continued"}})),
      reencoded(metrics->AddCounter(kTurns, kTurnsHelp, {{"prompt", "reencoded"}})),
      sessions_(metrics->AddGauge("ropeway_sessions", "Sessions that are kept.")),
      bytes_(metrics->AddGauge("ropeway_session_store_bytes", "Bytes of the sessions' records.")),
      unwritten_(metrics->AddGauge(
          "ropeway_sessions_unwritten",
          "Sessions whose last turn could not be written yet, and would not survive a restart.")),
      expired_(metrics->AddCounter("ropeway_sessions_expired_total",
                                   "Sessions removed because they were unused for long.")),
      lost_(metrics->AddCounter("ropeway_sessions_lost_total",
                                "Sessions whose record was found damaged.")),
      failed_writes_(metrics->AddCounter("ropeway_session_write_errors_total",
                                         "Turns that could not be written when they ended.")) {}

void SessionMetrics::Set(const store::SessionStoreStats& stats) {
  const std::lock_guard lock(mu_);
  sessions_->Set(static_cast<double>(stats.sessions));
  bytes_->Set(static_cast<double>(stats.bytes));
  unwritten_->Set(static_cast<double>(stats.unwritten));
  expired_->Increment(static_cast<double>(stats.expired - last_.expired));
  lost_->Increment(static_cast<double>(stats.lost - last_.lost));
  failed_writes_->Increment(static_cast<double>(stats.failed_writes - last_.failed_writes));
  last_ = stats;
}

EngineMetrics::EngineMetrics(const SchedulingOptions& options)
    : step_rows(metrics_.AddHistogram("ropeway_step_rows",
                                      "Rows (tokens of all sequences) of one forward pass.",
                                      base::CountBuckets())),
      step_time(metrics_.AddHistogram("ropeway_step_time_seconds",
                                      "One engine step, from scheduling to emitting.",
                                      base::ShortLatencyBuckets())),
      step_forward(metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "forward"}})),
      step_sampling(metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "sampling"}})),
      step_scheduling(
          metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "scheduling"}})),
      batch_size(metrics_.AddHistogram("ropeway_batch_size", "Sequences of one forward pass.",
                                       base::CountBuckets())),
      busy_seconds(
          metrics_.AddCounter("ropeway_busy_seconds_total", "Time in which the engine computed.")),
      slots_used(metrics_.AddCounter(kSlotSeconds, kSlotSecondsHelp, {{"state", "used"}})),
      slots_all(metrics_.AddCounter(kSlotSeconds, kSlotSecondsHelp, {{"state", "all"}})),
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
                                      "Events missing in the trace file because its writer could "
                                      "not keep up.")),
      rejected(metrics_.AddCounter("ropeway_request_rejected_total",
                                   "Requests ended before they were queued: prompt too long, "
                                   "cancelled while it was encoded, and the like.")),
      classes_{ClassMetrics(&metrics_, Priority::kHigh, LimitsOf(options, 0)),
               ClassMetrics(&metrics_, Priority::kMedium, LimitsOf(options, 1)),
               ClassMetrics(&metrics_, Priority::kLow, LimitsOf(options, 2))},
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
  for (int i = 0; i < scheduler::kNumPreemptReasons; ++i) {
    preemptions_[static_cast<size_t>(i)] = metrics_.AddCounter(
        "ropeway_num_preemptions_total", "How often a sequence was preempted, by reason.",
        {{"reason", scheduler::PreemptReasonName(static_cast<scheduler::PreemptReason>(i))}});
  }
  for (int i = 0; i < scheduler::kNumBlockedBy; ++i) {
    waiting_by_[static_cast<size_t>(i)] =
        metrics_.AddGauge("ropeway_num_requests_waiting_by_reason",
                          "Requests that wait, by what keeps the first of them from starting.",
                          {{"reason", WaitReasonName(static_cast<scheduler::BlockedBy>(i))}});
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

void EngineMetrics::SetWaiting(scheduler::BlockedBy rule, int count) const {
  for (size_t i = 0; i < waiting_by_.size(); ++i) {
    waiting_by_[i]->Set(static_cast<scheduler::BlockedBy>(i) == rule ? count : 0);
  }
}

void EngineMetrics::SetInfo(const std::string& kernels, int threads) {
  metrics_
      .AddGauge("ropeway_engine_info", "What computes: the table of kernels, and its threads.",
                {{"kernels", kernels}, {"threads", std::to_string(threads)}})
      ->Set(1);
}

}  // namespace ropeway::engine
