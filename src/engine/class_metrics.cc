#include "engine/class_metrics.h"

namespace ropeway {
namespace {

Metrics::Labels LabelsOf(Priority priority) { return {{"priority", PriorityName(priority)}}; }

Histogram* Latency(Metrics* metrics, Priority priority, const char* name, const char* help) {
  return metrics->AddHistogram(name, help, LatencyBuckets(), LabelsOf(priority));
}

}  // namespace

ClassMetrics::ClassMetrics(Metrics* metrics, Priority priority, Duration ttft_limit)
    : time_to_first_token(
          Latency(metrics, priority, "ropeway_time_to_first_token_seconds",
                  "From the request's arrival to its first generated token, by class.")),
      inter_token_latency(
          metrics->AddHistogram("ropeway_inter_token_latency_seconds",
                                "Between two generated tokens of one request, by class.",
                                ShortLatencyBuckets(), LabelsOf(priority))),
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
      late(metrics->AddCounter("ropeway_ttft_limit_violations_total",
                               "First tokens that took longer than their class's limit.",
                               LabelsOf(priority))),
      ttft_limit_(ttft_limit) {
  metrics
      ->AddGauge("ropeway_ttft_limit_seconds", "The class's limit on the time to the first token.",
                 LabelsOf(priority))
      ->Set(ToSeconds(ttft_limit));
}

void ClassMetrics::FirstToken(Duration after) const {
  time_to_first_token->Observe(ToSeconds(after));
  if (after > ttft_limit_) late->Increment();
}

void ClassMetrics::Ended(const PhaseTimes& times) const {
  prefill_time->Observe(ToSeconds(times.prefill));
  decode_time->Observe(ToSeconds(times.decode));
  output_time->Observe(ToSeconds(times.output));
}

}  // namespace ropeway
