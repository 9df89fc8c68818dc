#include "engine/engine_metrics.h"

namespace ropeway {
namespace {

constexpr const char* kStepSeconds = "ropeway_step_seconds_total";
constexpr const char* kStepSecondsHelp =
    "The time of engine steps by what they did: forward (the model), sampling (the search for "
    "tokens in its logits), scheduling (all else: planning, dealing out the work, applying, "
    "emitting).";

}  // namespace

EngineMetrics::EngineMetrics()
    : time_to_first_token(metrics_.AddHistogram(
          "ropeway_time_to_first_token_seconds",
          "From the request's arrival to its first generated token.", LatencyBuckets())),
      inter_token_latency(metrics_.AddHistogram("ropeway_inter_token_latency_seconds",
                                                "Between two generated tokens of one request.",
                                                ShortLatencyBuckets())),
      queue_time(metrics_.AddHistogram("ropeway_request_queue_time_seconds",
                                       "From the request's arrival to its first step.",
                                       LatencyBuckets())),
      e2e_latency(metrics_.AddHistogram("ropeway_e2e_request_latency_seconds",
                                        "From the request's arrival to its end.",
                                        LatencyBuckets())),
      step_rows(metrics_.AddHistogram("ropeway_step_rows",
                                      "Rows (tokens of all sequences) of one forward pass.",
                                      CountBuckets())),
      step_time(metrics_.AddHistogram("ropeway_step_time_seconds",
                                      "One engine step, from scheduling to emitting.",
                                      ShortLatencyBuckets())),
      step_forward(metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "forward"}})),
      step_sampling(metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "sampling"}})),
      step_scheduling(
          metrics_.AddCounter(kStepSeconds, kStepSecondsHelp, {{"part", "scheduling"}})),
      num_running(metrics_.AddGauge("ropeway_num_requests_running",
                                    "Requests that prefill or decode now.")),
      num_waiting(metrics_.AddGauge(
          "ropeway_num_requests_waiting",
          "Requests accepted and not yet started, and preempted ones that wait for blocks.")),
      kv_cache_usage(metrics_.AddGauge("ropeway_kv_cache_usage_ratio",
                                       "Part of the KV cache's blocks that sequences hold.")),
      preemptions(metrics_.AddCounter(
          "ropeway_num_preemptions_total",
          "How often a sequence gave its place and blocks back, to go on later.")),
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
                                  "cancelled while it was encoded, and the like.")) {
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

void EngineMetrics::SetInfo(const std::string& kernels, int threads) {
  metrics_
      .AddGauge("ropeway_engine_info", "What computes: the table of kernels, and its threads.",
                {{"kernels", kernels}, {"threads", std::to_string(threads)}})
      ->Set(1);
}

}  // namespace ropeway
