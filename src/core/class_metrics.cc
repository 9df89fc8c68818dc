#include "core/class_metrics.h"

#include <cstddef>

namespace ropeway::core {
namespace {

base::Histogram* AddLatency(base::Metrics* metrics, Priority priority, const char* name,
                            const char* help) {
  return metrics->AddHistogram(name, help, base::LatencyBuckets(), LabelsOf(priority));
}

ClassMetrics MakeOne(base::Metrics* metrics, RecentLatencies* recent, Priority priority,
                     const QueueOptions& options) {
  const auto index = static_cast<size_t>(priority);
  return {metrics,
          recent,
          priority,
          {.ttft = options.ttft_limits[index], .latency = options.latency_limits[index]}};
}

}  // namespace

base::Metrics::Labels LabelsOf(Priority priority) { return {{"priority", PriorityName(priority)}}; }

ClassMetrics::ClassMetrics(base::Metrics* metrics, RecentLatencies* recent, Priority priority,
                           const Limits& limits)
    : ttft_(AddLatency(metrics, priority, "ropeway_time_to_first_token_seconds",
                       "Time from a request's arrival to its first generated token, by class.")),
      inter_token_(metrics->AddHistogram("ropeway_inter_token_latency_seconds",
                                         "Time between two generated tokens of a request, by "
                                         "class; on a gateway: between two pieces of its output.",
                                         base::ShortLatencyBuckets(), LabelsOf(priority))),
      queue_(AddLatency(metrics, priority, "ropeway_request_queue_time_seconds",
                        "Time from a request's arrival to its start, by class. It starts with its "
                        "first step; on a gateway: when it is sent to a backend.")),
      formation_(AddLatency(
          metrics, priority, "ropeway_request_formation_time_seconds",
          "Part of the queue time that a request waited for its batch to fill, by class.")),
      prefill_(AddLatency(metrics, priority, "ropeway_request_prefill_time_seconds",
                          "Time from a request's start to its first token, by class.")),
      decode_(AddLatency(metrics, priority, "ropeway_request_decode_time_seconds",
                         "Time from a request's first token to its last one, by class.")),
      output_(AddLatency(metrics, priority, "ropeway_request_output_time_seconds",
                         "Time from a request's last token to the report of its end, by class.")),
      e2e_(AddLatency(metrics, priority, "ropeway_e2e_request_latency_seconds",
                      "Time from a request's arrival to its end, by class.")),
      late_first_tokens_(metrics->AddCounter(
          "ropeway_ttft_limit_violations_total",
          "Requests whose first token took longer than the limit of their class.",
          LabelsOf(priority))),
      late_ends_(metrics->AddCounter(
          "ropeway_e2e_limit_violations_total",
          "Requests that took longer from arrival to end than the limit of their class.",
          LabelsOf(priority))),
      waiting_(metrics->AddGauge("ropeway_queue_depth",
                                 "Waiting requests of the class, including preempted ones.",
                                 LabelsOf(priority))),
      running_(metrics->AddGauge("ropeway_class_running", "Running requests of the class.",
                                 LabelsOf(priority))),
      expected_wait_(metrics->AddGauge("ropeway_expected_wait_seconds",
                                       "Predicted wait of a request of the class that arrives now, "
                                       "for the tenant with the longest wait.",
                                       LabelsOf(priority))),
      recent_(recent),
      limits_(limits) {
  metrics
      ->AddGauge("ropeway_ttft_limit_seconds", "Limit of the class on the time to the first token.",
                 LabelsOf(priority))
      ->Set(base::ToSeconds(limits.ttft));
  metrics
      ->AddGauge("ropeway_e2e_limit_seconds", "Limit of the class on the time from arrival to end.",
                 LabelsOf(priority))
      ->Set(base::ToSeconds(limits.latency));
}

void ClassMetrics::Started(base::Duration after, base::Duration formation) const {
  queue_->Observe(base::ToSeconds(after));
  formation_->Observe(base::ToSeconds(formation));
}

void ClassMetrics::FirstToken(base::Duration after) const {
  ttft_->Observe(base::ToSeconds(after));
  const base::TimePoint now = base::RealClock().Now();
  recent_->ttft.Add(after, now);
  if (after <= limits_.ttft) return;
  late_first_tokens_->Increment();
  recent_->late.Add(after, now);
}

void ClassMetrics::Token(base::Duration since) const {
  inter_token_->Observe(base::ToSeconds(since));
  recent_->inter_token.Add(since, base::RealClock().Now());
}

void ClassMetrics::EndedAfter(base::Duration after) const {
  e2e_->Observe(base::ToSeconds(after));
  const base::TimePoint now = base::RealClock().Now();
  recent_->e2e.Add(after, now);
  if (after <= limits_.latency) return;
  late_ends_->Increment();
  recent_->late.Add(after, now);
}

void ClassMetrics::Ended(const PhaseTimes& times) const {
  prefill_->Observe(base::ToSeconds(times.prefill));
  decode_->Observe(base::ToSeconds(times.decode));
  output_->Observe(base::ToSeconds(times.output));
}

void ClassMetrics::SetQueue(int waiting, int running, double wait_seconds) const {
  waiting_->Set(waiting);
  running_->Set(running);
  expected_wait_->Set(wait_seconds);
}

RequestMetrics::RequestMetrics(base::Metrics* metrics, const QueueOptions& options)
    : classes_{MakeOne(metrics, recent_.get(), Priority::kHigh, options),
               MakeOne(metrics, recent_.get(), Priority::kMedium, options),
               MakeOne(metrics, recent_.get(), Priority::kLow, options)} {
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCancelled, FinishReason::kFailed}) {
    ended_[static_cast<size_t>(reason)] =
        metrics->AddCounter("ropeway_request_success_total", "Ended requests, by finish reason.",
                            {{"finished_reason", FinishReasonName(reason)}});
  }
}

void RequestMetrics::Ended(Priority priority, FinishReason reason, base::Duration after) const {
  ended_[static_cast<size_t>(reason)]->Increment();
  of(priority).EndedAfter(after);
}

}  // namespace ropeway::core
