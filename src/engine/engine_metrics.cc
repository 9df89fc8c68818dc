#include "engine/engine_metrics.h"

#include <algorithm>
#include <utility>

#include "scheduler/scheduler_output.h"

namespace ropeway::engine {
namespace {

constexpr const char* kSlotSeconds = "ropeway_slot_seconds_total";
constexpr const char* kSlotSecondsHelp =
    "While requests wait, seconds of steps times slots (max_num_seqs): slots in use, and all.";

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
      encoding_time(Latency(metrics, priority, "ropeway_request_encoding_time_seconds",
                            "From the request's arrival until its prompt was encoded, by class.")),
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

EngineMetrics::EngineMetrics(const SchedulingOptions& options)
    : step_rows(metrics_.AddHistogram(
          "ropeway_step_rows", "Rows of one forward pass: tokens of all sequences, and padding.",
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
      prompt_tokens(metrics_.AddCounter(
          "ropeway_prompt_tokens_total",
          "Prompt tokens of requests that got their first token, or wanted none.")),
      generation_tokens(metrics_.AddCounter("ropeway_generation_tokens_total",
                                            "Tokens generated and delivered.")),
      stalls(metrics_.AddCounter("ropeway_engine_stalls_total",
                                 "How often the engine had work and made no progress for long.")),
      rejected(metrics_.AddCounter("ropeway_request_rejected_total",
                                   "Requests ended before they were queued: prompt too long, "
                                   "cancelled while it was encoded, and the like.")),
      turns{.begun = metrics_.AddCounter(kTurns, kTurnsHelp, {{"prompt", "begun"}}),
            .continued = metrics_.AddCounter(kTurns, kTurnsHelp, {{"prompt", "continued"}}),
            .reencoded = metrics_.AddCounter(kTurns, kTurnsHelp, {{"prompt", "reencoded"}})},
      classes_{ClassMetrics(&metrics_, Priority::kHigh, LimitsOf(options, 0)),
               ClassMetrics(&metrics_, Priority::kMedium, LimitsOf(options, 1)),
               ClassMetrics(&metrics_, Priority::kLow, LimitsOf(options, 2))} {
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCancelled, FinishReason::kFailed}) {
    finished_[static_cast<size_t>(reason)] =
        metrics_.AddCounter("ropeway_request_success_total", "Requests that ended, by reason.",
                            {{"finished_reason", FinishReasonName(reason)}});
  }
  SampleRequests();
  SampleBatching();
  SampleCache();
  SampleTier();
  SampleSessions();
  Sample("ropeway_trace_dropped_events",
         "Events missing in the trace file because its writer could not keep up.",
         [](const EngineSample& s) { return s.trace_dropped; });
}

void EngineMetrics::Sample(const std::string& name, const char* help, ValueFn value,
                           const base::Metrics::Labels& labels) {
  Sampled& sampled = sampled_.emplace_back();
  sampled.value = std::move(value);
  if (name.ends_with("_total")) {
    sampled.counter = metrics_.AddCounter(name, help, labels);
  } else {
    sampled.gauge = metrics_.AddGauge(name, help, labels);
  }
}

std::string EngineMetrics::Text(const EngineSample& sample) {
  {
    const std::lock_guard lock(mu_);
    for (const Sampled& sampled : sampled_) {
      const double value = sampled.value(sample);
      if (sampled.gauge != nullptr) {
        sampled.gauge->Set(value);
      } else {
        sampled.counter->Increment(std::max(0.0, value - sampled.counter->Value()));
      }
    }
  }
  return metrics_.Text();
}

void EngineMetrics::SampleRequests() {
  using S = EngineSample;
  Sample("ropeway_num_requests_running", "Requests that prefill or decode now.",
         [](const S& s) { return s.engine.running; });
  Sample("ropeway_num_requests_waiting",
         "Requests accepted and not yet started, and preempted ones that wait to go on.",
         [](const S& s) { return s.engine.queue_depth; });
  for (int i = 0; i < scheduler::kNumBlockedBy; ++i) {
    const auto rule = static_cast<scheduler::BlockedBy>(i);
    Sample("ropeway_num_requests_waiting_by_reason",
           "Requests that wait, by what keeps the first of them from starting.",
           [rule](const S& s) { return s.core.blocked_rule == rule ? s.engine.queue_depth : 0; },
           {{"reason", scheduler::NamesOf(rule).label}});
  }
  for (size_t i = 0; i < scheduler::kNumPreemptReasons; ++i) {
    Sample("ropeway_num_preemptions_total", "How often a sequence was preempted, by reason.",
           [i](const S& s) { return s.core.preemptions_by[i]; },
           {{"reason", PreemptReasonName(static_cast<scheduler::PreemptReason>(i))}});
  }
  for (size_t i = 0; i < kNumPriorities; ++i) {
    const base::Metrics::Labels labels = LabelsOf(static_cast<Priority>(i));
    Sample(
        "ropeway_queue_depth", "Requests of the class that wait, preempted ones too.",
        [i](const S& s) { return s.core.waiting_by[i]; }, labels);
    Sample(
        "ropeway_class_running", "Requests of the class that run.",
        [i](const S& s) { return s.core.running_by[i]; }, labels);
    Sample(
        "ropeway_expected_wait_seconds",
        "How long a request of the class that came now would wait, of the tenant that would wait "
        "longest.",
        [i](const S& s) { return s.load.LongestWait(static_cast<Priority>(i)); }, labels);
  }
}

void EngineMetrics::SampleBatching() {
  using S = EngineSample;
  Sample("ropeway_max_running", "Sequences that may run at once by now (--batch-control).",
         [](const S& s) { return s.core.limit; });
  Sample("ropeway_attention_weight",
         "What attending to one position costs, in tokens, as measured (docs/scheduling.md).",
         [](const S& s) { return s.core.attention_weight; });
  Sample("ropeway_cost_units_per_second",
         "Work done per second of steps, in tokens plus weighted attended positions; 0: not "
         "measured yet.",
         [](const S& s) { return s.core.speed; });
  Sample("ropeway_batches_total",
         "Batches begun; with continuous batching, steps that started requests.",
         [](const S& s) { return s.engine.total_batches; });
  Sample("ropeway_batched_requests_total", "Requests that started in these batches.",
         [](const S& s) { return s.engine.total_requests; });
  Sample("ropeway_batch_size_avg", "Requests that ran when a batch began, on average.",
         [](const S& s) { return s.engine.avg_batch_size; });
  Sample("ropeway_batch_duration_avg_seconds",
         "From a batch's start to the end of the last request that started in it, on average.",
         [](const S& s) { return s.engine.avg_batch_duration_ms / 1e3; });
  Sample("ropeway_batch_size_max",
         "Requests that one batch may hold; with continuous batching, one step.",
         [](const S& s) { return s.engine.max_batch_size; });
  Sample("ropeway_batch_wait_max_seconds", "How long a batch waits to fill; 0: it does not wait.",
         [](const S& s) { return s.engine.max_batch_wait_ms / 1e3; });
  Sample("ropeway_step_rows_avg", "Rows of a step without padding, on average.",
         [](const S& s) { return s.engine.avg_step_rows; });
  Sample("ropeway_experts_read_total",
         "Experts whose weights steps read, summed over layers; 0: the model has none.",
         [](const S& s) { return s.core.experts_read; });
  Sample("ropeway_utilization_ratio", "Share of the last 10 seconds in which a step ran.",
         [](const S& s) { return s.engine.utilization; });
  Sample("ropeway_prompt_tokens_per_second",
         "Prompt tokens computed for the first time per second, over the last 10 seconds.",
         [](const S& s) { return s.engine.prompt_tokens_per_second; });
  Sample("ropeway_generation_tokens_per_second",
         "Tokens generated per second, over the last 10 seconds.",
         [](const S& s) { return s.engine.generation_tokens_per_second; });
}

void EngineMetrics::SampleCache() {
  using S = EngineSample;
  Sample("ropeway_kv_cache_usage_ratio", "Part of the KV cache's blocks that sequences hold.",
         [](const S& s) {
           const int held = s.engine.kv_blocks_held;
           const int all = s.engine.kv_blocks_free + held + s.engine.kv_blocks_cached;
           return all == 0 ? 0.0 : static_cast<double>(held) / all;
         });
  const auto blocks = [this](const char* state, ValueFn value) {
    Sample("ropeway_kv_cache_blocks",
           "KV blocks by state: held by sequences, cached for later, free.", std::move(value),
           {{"state", state}});
  };
  blocks("free", [](const S& s) { return s.core.free_blocks; });
  blocks("cached", [](const S& s) { return s.core.cached_blocks; });
  blocks("held", [](const S& s) { return s.core.held_blocks; });
  Sample("ropeway_prefix_cache_queries_total", "Prompt tokens of requests that began to compute.",
         [](const S& s) { return s.core.prompt_tokens; });
  Sample("ropeway_prefix_cache_hits_total",
         "Of these, tokens found in the pool or read from the disk tier.",
         [](const S& s) { return s.core.cached_prompt_tokens; });
  Sample("ropeway_recomputed_tokens_total",
         "Tokens computed again because a preempted request's blocks were gone.",
         [](const S& s) { return s.core.recomputed_tokens; });
  Sample("ropeway_kv_cache_evictions_total", "Cached blocks evicted from the pool.",
         [](const S& s) { return s.core.evicted_blocks; });
}

void EngineMetrics::SampleTier() {
  using S = EngineSample;
  Sample("ropeway_kv_disk_on", "1 while the disk tier works; 0: none, or turned off by an error.",
         [](const S& s) { return s.has_tier && s.tier.on; });
  Sample("ropeway_kv_disk_bytes", "Bytes that the disk tier takes.",
         [](const S& s) { return s.tier.bytes; });
  Sample("ropeway_kv_disk_capacity_bytes", "Bytes that it may take.",
         [](const S& s) { return s.tier.capacity_bytes; });
  Sample("ropeway_kv_disk_blocks", "Blocks in the disk tier.",
         [](const S& s) { return s.tier.blocks; });
  Sample("ropeway_kv_disk_pending_bytes", "Bytes of memory on their way to or from it.",
         [](const S& s) { return s.tier.pending_bytes; });
  Sample("ropeway_kv_disk_spilled_blocks_total", "Evicted blocks handed to the disk tier.",
         [](const S& s) { return s.core.transfers.spilled_blocks; });
  Sample("ropeway_kv_disk_stored_blocks_total",
         "Blocks handed to the disk tier, for whatever reason.",
         [](const S& s) { return s.core.transfers.stored_blocks; });
  Sample("ropeway_kv_disk_lost_blocks_total", "Evicted blocks that the disk tier could not take.",
         [](const S& s) { return s.core.transfers.lost_blocks; });
  Sample("ropeway_kv_disk_fetched_blocks_total", "Blocks read back into the pool.",
         [](const S& s) { return s.core.transfers.fetched_blocks; });
  Sample("ropeway_kv_disk_failed_reads_total", "Reads that brought less than was asked for.",
         [](const S& s) { return s.core.transfers.failed_reads; });
  Sample("ropeway_kv_disk_fetch_seconds_total", "Time that requests waited for reads.",
         [](const S& s) { return base::ToSeconds(s.core.transfers.fetch_time); });
  Sample("ropeway_kv_disk_written_bytes_total", "Bytes of blocks written.",
         [](const S& s) { return s.tier.written_bytes; });
  Sample("ropeway_kv_disk_read_bytes_total", "Bytes of blocks read.",
         [](const S& s) { return s.tier.read_bytes; });
  Sample("ropeway_kv_disk_rejected_blocks_total",
         "Blocks found torn, foreign or corrupt; never served.",
         [](const S& s) { return s.tier.rejected_blocks; });
  Sample("ropeway_kv_disk_evicted_blocks_total", "Blocks dropped from the disk tier for space.",
         [](const S& s) { return s.tier.evicted_blocks; });
  Sample("ropeway_kv_disk_cpu_seconds_total", "CPU time of the disk tier's threads.",
         [](const S& s) { return s.tier.cpu_seconds; });
}

void EngineMetrics::SampleSessions() {
  using S = EngineSample;
  Sample("ropeway_sessions", "Sessions that are kept.",
         [](const S& s) { return s.sessions.sessions; });
  Sample("ropeway_session_store_bytes", "Bytes of the sessions' records.",
         [](const S& s) { return s.sessions.bytes; });
  Sample("ropeway_sessions_unwritten",
         "Sessions whose last turn could not be written yet, and would not survive a restart.",
         [](const S& s) { return s.sessions.unwritten; });
  Sample("ropeway_sessions_expired_total", "Sessions removed because they were unused for long.",
         [](const S& s) { return s.sessions.expired; });
  Sample("ropeway_sessions_lost_total", "Sessions whose record was found damaged.",
         [](const S& s) { return s.sessions.lost; });
  Sample("ropeway_session_write_errors_total", "Turns that could not be written when they ended.",
         [](const S& s) { return s.sessions.failed_writes; });
}

}  // namespace ropeway::engine
