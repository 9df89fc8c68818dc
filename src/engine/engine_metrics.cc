#include "engine/engine_metrics.h"

#include <utility>

#include "scheduler/scheduler_output.h"

namespace ropeway::engine {
namespace {

constexpr const char* kSlotSeconds = "ropeway_slot_seconds_total";
constexpr const char* kSlotSecondsHelp =
    "Step seconds times slots (max_num_seqs) while requests wait, by state: slots in use, and all "
    "slots.";

constexpr const char* kStepSeconds = "ropeway_step_seconds_total";
constexpr const char* kStepSecondsHelp =
    "Time of engine steps, by part: forward (running the model), sampling (choosing tokens from "
    "its logits), scheduling (everything else, such as planning a step and applying its results).";

constexpr const char* kTurns = "ropeway_session_turns_total";
constexpr const char* kTurnsHelp =
    "Session turns, by the source of their prompt: begun (first turn of the session), continued "
    "(added to the session's token ids), reencoded (the whole chat, because its template changed "
    "earlier text).";

}  // namespace

EngineMetrics::EngineMetrics(const QueueOptions& options)
    : step_rows(metrics_.AddHistogram(
          "ropeway_step_rows", "Rows per forward pass: the tokens of all sequences, and padding.",
          base::CountBuckets())),
      step_time(metrics_.AddHistogram(
          "ropeway_step_time_seconds",
          "Time of an engine step, from scheduling to the delivery of its tokens.",
          base::ShortLatencyBuckets())),
      step_forward(metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "forward"}})),
      step_sampling(metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "sampling"}})),
      step_scheduling(
          metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "scheduling"}})),
      batch_size(metrics_.AddHistogram("ropeway_batch_size", "Sequences per forward pass.",
                                       base::CountBuckets())),
      busy_seconds(metrics_.AddCounter("ropeway_busy_seconds_total",
                                       "Time that the engine spent computing.")),
      slots_used(metrics_.AddCounter(kSlotSeconds, kSlotSecondsHelp, {{"state", "used"}})),
      slots_all(metrics_.AddCounter(kSlotSeconds, kSlotSecondsHelp, {{"state", "all"}})),
      prompt_tokens(metrics_.AddCounter(
          "ropeway_prompt_tokens_total",
          "Prompt tokens of requests that received their first token or asked for none.")),
      generation_tokens(metrics_.AddCounter("ropeway_generation_tokens_total",
                                            "Tokens generated and delivered.")),
      stalls(metrics_.AddCounter("ropeway_engine_stalls_total",
                                 "Times that the engine had work but made no progress for long.")),
      rejected(metrics_.AddCounter("ropeway_request_rejected_total",
                                   "Requests that ended before they were queued, for example "
                                   "because the prompt was too long.")),
      turns{.begun = metrics_.AddCounter(kTurns, kTurnsHelp, {{"prompt", "begun"}}),
            .continued = metrics_.AddCounter(kTurns, kTurnsHelp, {{"prompt", "continued"}}),
            .reencoded = metrics_.AddCounter(kTurns, kTurnsHelp, {{"prompt", "reencoded"}})},
      requests(&metrics_, options),
      sessions_(store::MakeSessionMetrics(&metrics_)),
      sampled_(&metrics_) {
  for (size_t i = 0; i < encoding_time_.size(); ++i) {
    encoding_time_[i] = metrics_.AddHistogram(
        "ropeway_request_encoding_time_seconds",
        "Time from a request's arrival until its prompt was encoded, by class.",
        base::LatencyBuckets(), core::LabelsOf(static_cast<Priority>(i)));
  }
  SampleRequests();
  SampleBatching();
  SampleCache();
  SampleTier();
  SampleGrammars();
  sampled_.Add("ropeway_trace_dropped_events",
               "Events missing from the trace file because its writer could not keep up.",
               [](const EngineSample& s) { return s.trace_dropped; });
}

std::string EngineMetrics::Text(const EngineSample& sample) {
  {
    const std::lock_guard lock(mu_);
    sampled_.Follow(sample);
    for (size_t i = 0; i < kNumPriorities; ++i) {
      const auto priority = static_cast<Priority>(i);
      requests.of(priority).SetQueue(sample.core.waiting_by[i], sample.core.running_by[i],
                                     sample.load.LongestWait(priority));
    }
    sessions_.Follow(sample.sessions);
  }
  return metrics_.Text();
}

void EngineMetrics::SampleRequests() {
  using S = EngineSample;
  sampled_.Add("ropeway_num_requests_running", "Requests in prefill or decode.",
               [](const S& s) { return s.engine.running; });
  sampled_.Add(
      "ropeway_num_requests_waiting",
      "Accepted requests that have not started, and preempted requests that wait to resume.",
      [](const S& s) { return s.engine.queue_depth; });
  for (int i = 0; i < scheduler::kNumBlockedBy; ++i) {
    const auto rule = static_cast<scheduler::BlockedBy>(i);
    sampled_.Add(
        "ropeway_num_requests_waiting_by_reason",
        "Waiting requests, by the reason why the first of them cannot start.",
        [rule](const S& s) { return s.core.blocked_rule == rule ? s.engine.queue_depth : 0; },
        {{"reason", scheduler::NamesOf(rule).label}});
  }
  for (size_t i = 0; i < scheduler::kNumPreemptReasons; ++i) {
    sampled_.Add("ropeway_num_preemptions_total", "Preemptions of sequences, by reason.",
                 [i](const S& s) { return s.core.preemptions_by[i]; },
                 {{"reason", PreemptReasonName(static_cast<scheduler::PreemptReason>(i))}});
  }
}

void EngineMetrics::SampleBatching() {
  using S = EngineSample;
  sampled_.Add("ropeway_max_running", "Current limit on running sequences (--batch-control).",
               [](const S& s) { return s.core.limit; });
  sampled_.Add("ropeway_attention_weight",
               "Measured cost of attention to one position, in tokens (docs/scheduling.md).",
               [](const S& s) { return s.core.attention_weight; });
  sampled_.Add("ropeway_cost_units_per_second",
               "Work per second of step time, in tokens plus weighted attended positions; 0: not "
               "measured yet.",
               [](const S& s) { return s.core.speed; });
  sampled_.Add("ropeway_batches_total",
               "Batches started; with continuous batching: steps that started requests.",
               [](const S& s) { return s.engine.total_batches; });
  sampled_.Add("ropeway_batched_requests_total",
               "Requests started in the batches that ropeway_batches_total counts.",
               [](const S& s) { return s.engine.total_requests; });
  sampled_.Add("ropeway_batch_size_avg", "Average number of running requests when a batch started.",
               [](const S& s) { return s.engine.avg_batch_size; });
  sampled_.Add(
      "ropeway_batch_duration_avg_seconds",
      "Average time from a batch's start to the end of the last request that started in it.",
      [](const S& s) { return s.engine.avg_batch_duration_ms / 1e3; });
  sampled_.Add("ropeway_batch_size_max",
               "Maximum number of requests in a batch; with continuous batching: in a step.",
               [](const S& s) { return s.engine.max_batch_size; });
  sampled_.Add("ropeway_batch_wait_max_seconds",
               "Maximum time that a batch waits to fill; 0: it does not wait.",
               [](const S& s) { return s.engine.max_batch_wait_ms / 1e3; });
  sampled_.Add("ropeway_step_rows_avg", "Average number of rows per step, without padding.",
               [](const S& s) { return s.engine.avg_step_rows; });
  sampled_.Add("ropeway_experts_read_total",
               "Reads of an expert's weights, summed over steps and layers: on the CPU one for all "
               "rows that go through it, on a GPU one for each; 0: the model has no experts.",
               [](const S& s) { return s.core.experts_read; });
  sampled_.Add("ropeway_device_busy_seconds_total",
               "Time of steps on a device other than the CPU, without sampling.",
               [](const S& s) { return base::ToSeconds(s.core.device_busy); });
  sampled_.Add("ropeway_device_copied_bytes_total",
               "Bytes between the host and a device other than the CPU.",
               [](const S& s) { return s.core.copied_bytes; });
  sampled_.Add("ropeway_utilization_ratio", "Share of the last 10 seconds during which a step ran.",
               [](const S& s) { return s.engine.utilization; });
  sampled_.Add("ropeway_prompt_tokens_per_second",
               "Prompt tokens computed for the first time, per second, over the last 10 seconds.",
               [](const S& s) { return s.engine.prompt_tokens_per_second; });
  sampled_.Add("ropeway_generation_tokens_per_second",
               "Generated tokens per second, over the last 10 seconds.",
               [](const S& s) { return s.engine.generation_tokens_per_second; });
}

void EngineMetrics::SampleCache() {
  using S = EngineSample;
  sampled_.Add("ropeway_kv_cache_usage_ratio",
               "Share of the KV cache's blocks that sequences hold.", [](const S& s) {
                 const int held = s.engine.kv_blocks_held;
                 const int all = s.engine.kv_blocks_free + held + s.engine.kv_blocks_cached;
                 return all == 0 ? 0.0 : static_cast<double>(held) / all;
               });
  const auto blocks = [this](const char* state, base::SampledMetrics<EngineSample>::ValueFn value) {
    sampled_.Add("ropeway_kv_cache_blocks",
                 "KV blocks by state: held by sequences, cached for later, free.", std::move(value),
                 {{"state", state}});
  };
  blocks("free", [](const S& s) { return s.core.free_blocks; });
  blocks("cached", [](const S& s) { return s.core.cached_blocks; });
  blocks("held", [](const S& s) { return s.core.held_blocks; });
  sampled_.Add("ropeway_prefix_cache_queries_total", "Prompt tokens of requests that started.",
               [](const S& s) { return s.core.prompt_tokens; });
  sampled_.Add("ropeway_prefix_cache_hits_total",
               "Prompt tokens found in the KV cache or read from the disk tier, of those that "
               "ropeway_prefix_cache_queries_total counts.",
               [](const S& s) { return s.core.cached_prompt_tokens; });
  sampled_.Add("ropeway_recomputed_tokens_total",
               "Tokens computed again because a preempted request had lost its KV blocks.",
               [](const S& s) { return s.core.recomputed_tokens; });
  sampled_.Add("ropeway_kv_cache_evictions_total", "Cached KV blocks evicted from memory.",
               [](const S& s) { return s.core.evicted_blocks; });
}

void EngineMetrics::SampleTier() {
  using S = EngineSample;
  sampled_.Add("ropeway_kv_disk_on",
               "1 while the disk tier works; 0 if there is none or an error turned it off.",
               [](const S& s) { return s.tier.on; });
  sampled_.Add("ropeway_kv_disk_bytes", "Disk space that the disk tier uses, in bytes.",
               [](const S& s) { return s.tier.bytes; });
  sampled_.Add("ropeway_kv_disk_capacity_bytes",
               "Limit on the disk space of the disk tier, in bytes.",
               [](const S& s) { return s.tier.capacity_bytes; });
  sampled_.Add("ropeway_kv_disk_blocks", "KV blocks in the disk tier.",
               [](const S& s) { return s.tier.blocks; });
  sampled_.Add("ropeway_kv_disk_pending_bytes",
               "Memory that holds KV blocks on their way to or from the disk tier, in bytes.",
               [](const S& s) { return s.tier.pending_bytes; });
  sampled_.Add("ropeway_kv_disk_spilled_blocks_total", "Evicted KV blocks handed to the disk tier.",
               [](const S& s) { return s.core.transfers.spilled_blocks; });
  sampled_.Add("ropeway_kv_disk_stored_blocks_total",
               "KV blocks handed to the disk tier for any reason.",
               [](const S& s) { return s.core.transfers.stored_blocks; });
  sampled_.Add("ropeway_kv_disk_lost_blocks_total",
               "Evicted KV blocks that the disk tier could not take.",
               [](const S& s) { return s.core.transfers.lost_blocks; });
  sampled_.Add("ropeway_kv_disk_fetched_blocks_total",
               "KV blocks read from the disk tier back into memory.",
               [](const S& s) { return s.core.transfers.fetched_blocks; });
  sampled_.Add("ropeway_kv_disk_failed_reads_total",
               "Reads from the disk tier that returned fewer KV blocks than requested.",
               [](const S& s) { return s.core.transfers.failed_reads; });
  sampled_.Add("ropeway_kv_disk_fetch_seconds_total",
               "Time that requests waited for reads from the disk tier.",
               [](const S& s) { return base::ToSeconds(s.core.transfers.fetch_time); });
  sampled_.Add("ropeway_kv_disk_written_bytes_total",
               "Bytes of KV blocks written to the disk tier.",
               [](const S& s) { return s.tier.written_bytes; });
  sampled_.Add("ropeway_kv_disk_read_bytes_total", "Bytes of KV blocks read from the disk tier.",
               [](const S& s) { return s.tier.read_bytes; });
  sampled_.Add("ropeway_kv_disk_rejected_blocks_total",
               "KV blocks of the disk tier that were found incomplete, foreign or corrupt, and "
               "were not used.",
               [](const S& s) { return s.tier.rejected_blocks; });
  sampled_.Add("ropeway_kv_disk_evicted_blocks_total",
               "KV blocks removed from the disk tier to free space.",
               [](const S& s) { return s.tier.evicted_blocks; });
  sampled_.Add("ropeway_kv_disk_cpu_seconds_total", "CPU time of the disk tier's threads.",
               [](const S& s) { return s.tier.cpu_seconds; });
}

void EngineMetrics::SampleGrammars() {
  using S = EngineSample;
  sampled_.Add("ropeway_grammar_cache_hits_total",
               "Requests whose grammar was compiled before, or was being compiled.",
               [](const S& s) { return s.grammars.hits; });
  sampled_.Add("ropeway_grammar_cache_misses_total", "Grammars compiled.",
               [](const S& s) { return s.grammars.misses; });
  sampled_.Add("ropeway_grammar_rejected_total",
               "Grammars that were rejected when compiled, such as for the work that they took.",
               [](const S& s) { return s.grammars.failed; });
  sampled_.Add("ropeway_grammar_compile_seconds_total", "Time spent compiling grammars.",
               [](const S& s) { return s.grammars.seconds; });
  sampled_.Add("ropeway_grammar_cache_bytes", "Memory of the compiled grammars that are kept.",
               [](const S& s) { return s.grammars.bytes; });
  sampled_.Add("ropeway_grammar_state_bytes", "Memory of the grammars' states of running requests.",
               [](const S& s) { return s.core.constraint_bytes; });
  sampled_.Add("ropeway_grammar_masks_total", "Masks filled for requests with a grammar.",
               [](const S& s) { return s.core.masks; });
  sampled_.Add("ropeway_grammar_masks_deferred_total",
               "Masks put off to a later step because those of the step took too long.",
               [](const S& s) { return s.core.deferred_masks; });
  sampled_.Add("ropeway_grammar_mask_seconds_total", "Time spent filling masks.",
               [](const S& s) { return base::ToSeconds(s.core.mask_time); });
}

}  // namespace ropeway::engine
