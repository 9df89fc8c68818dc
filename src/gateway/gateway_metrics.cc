#include "gateway/gateway_metrics.h"

namespace ropeway::gateway {
namespace {

constexpr const char* kBackendStates[] = {"up",        "returning", "busy",
                                          "not_ready", "draining",  "ejected"};

}  // namespace

GatewayMetrics::GatewayMetrics(const QueueOptions& options)
    : classes_(core::MakeClassMetrics(&metrics_, options)),
      prompt_tokens_(metrics_.AddCounter("ropeway_prompt_tokens_total",
                                         "Prompt tokens of requests that ended with an answer.")),
      generation_tokens_(
          metrics_.AddCounter("ropeway_generation_tokens_total", "Generated tokens of these.")),
      waiting_(metrics_.AddGauge("ropeway_num_requests_waiting",
                                 "Requests that wait to be sent to a backend.")),
      running_(metrics_.AddGauge("ropeway_num_requests_running", "Requests that a backend has.")),
      batch_size_avg_(metrics_.AddGauge("ropeway_batch_size_avg",
                                        "Requests that ran when a batch began, on average.")),
      batch_duration_avg_(metrics_.AddGauge(
          "ropeway_batch_duration_avg_seconds",
          "From a batch's start to the end of the last request that started in it, on average.")),
      batch_size_max_(metrics_.AddGauge("ropeway_batch_size_max",
                                        "Requests that one batch may hold; without batches, those "
                                        "that the backends may have at once.")),
      batch_wait_max_(metrics_.AddGauge("ropeway_batch_wait_max_seconds",
                                        "How long a batch waits to fill; 0: it does not wait.")),
      sessions_(&metrics_) {
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCancelled, FinishReason::kFailed}) {
    finished_[static_cast<size_t>(reason)] =
        metrics_.AddCounter("ropeway_request_success_total", "Requests that ended, by reason.",
                            {{"finished_reason", FinishReasonName(reason)}});
  }
  const auto total = [this](const char* name, const char* help, uint64_t DispatchCounts::*value) {
    totals_.emplace_back(metrics_.AddCounter(name, help), value);
  };
  total("ropeway_request_rejected_total",
        "Requests that were not accepted: the queue was too long, or no backend was up.",
        &DispatchCounts::rejected);
  total("ropeway_batches_total", "Batches begun; without batches, times that requests were sent.",
        &DispatchCounts::batches);
  total("ropeway_batched_requests_total", "Requests that started in these.",
        &DispatchCounts::batched);
  total("ropeway_gateway_retries_total", "Requests that were sent again from the start.",
        &DispatchCounts::retries);
  total("ropeway_gateway_resumptions_total", "Streams that another backend went on with.",
        &DispatchCounts::resumptions);
  total("ropeway_gateway_delayed_retries_total",
        "Retries that waited, so that failing backends do not get many times as much work.",
        &DispatchCounts::retries_delayed);
}

void GatewayMetrics::Ended(Priority priority, FinishReason reason, base::Duration after,
                           const PhaseTimes* times, const Usage& usage) {
  finished_[static_cast<size_t>(reason)]->Increment();
  of(priority).EndedAfter(after);
  if (times == nullptr) return;
  of(priority).Ended(*times);
  prompt_tokens_->Increment(usage.prompt_tokens);
  generation_tokens_->Increment(usage.completion_tokens);
}

GatewayMetrics::OfBackend GatewayMetrics::MakeBackend(const BackendStatus& backend) {
  const base::Metrics::Labels labels = {{"backend", backend.name}, {"model", backend.model}};
  const auto with = [&](const char* key, const char* value) {
    base::Metrics::Labels more = labels;
    more[key] = value;
    return more;
  };
  OfBackend its;
  for (const char* state : kBackendStates) {
    its.states[state] =
        metrics_.AddGauge("ropeway_backend_state",
                          "1 for the state that the backend is in, else 0.", with("state", state));
  }
  its.in_flight = metrics_.AddGauge("ropeway_backend_in_flight", "Requests that it has.", labels);
  its.concurrency = metrics_.AddGauge(
      "ropeway_backend_concurrency",
      "Requests that it may have at once: as set, as it reports, or as learned.", labels);
  its.outstanding_tokens =
      metrics_.AddGauge("ropeway_backend_outstanding_tokens",
                        "Predicted tokens of the requests that it has, still to come.", labels);
  constexpr const char* kLatency = "ropeway_backend_latency_seconds";
  constexpr const char* kLatencyHelp =
      "Of the last requests that it completed (up to 256), from sending to end.";
  its.p50 = metrics_.AddGauge(kLatency, kLatencyHelp, with("quantile", "0.5"));
  its.p99 = metrics_.AddGauge(kLatency, kLatencyHelp, with("quantile", "0.99"));
  const auto counter = [&](const char* name, const char* help, uint64_t BackendStatus::*value,
                           const base::Metrics::Labels& its_labels) {
    its.counters.emplace_back(metrics_.AddCounter(name, help, its_labels), value);
  };
  counter("ropeway_backend_requests_total", "Requests that it was sent.", &BackendStatus::sent,
          labels);
  counter("ropeway_backend_completed_total", "Requests that it completed.",
          &BackendStatus::completed, labels);
  counter("ropeway_backend_retries_total",
          "Of the requests that it was sent, those that had failed before.",
          &BackendStatus::retries, labels);
  counter("ropeway_backend_resumptions_total",
          "Of the requests that it was sent, streams that it went on with.",
          &BackendStatus::resumptions, labels);
  counter("ropeway_backend_ejections_total", "Times that it was taken out of service.",
          &BackendStatus::ejections, labels);
  constexpr const char* kFailures = "ropeway_backend_failures_total";
  constexpr const char* kFailuresHelp = "Requests that failed at the backend, by what went wrong.";
  counter(kFailures, kFailuresHelp, &BackendStatus::unreachable, with("kind", "unreachable"));
  counter(kFailures, kFailuresHelp, &BackendStatus::busy, with("kind", "busy"));
  counter(kFailures, kFailuresHelp, &BackendStatus::broken, with("kind", "broken"));
  counter(kFailures, kFailuresHelp, &BackendStatus::rejected, with("kind", "rejected"));
  counter(kFailures, kFailuresHelp, &BackendStatus::timeouts, with("kind", "timeout"));
  return its;
}

void GatewayMetrics::Follow(const BackendStatus& backend) {
  auto found = backends_.find(backend.name);
  if (found == backends_.end()) {
    found = backends_.emplace(backend.name, MakeBackend(backend)).first;
  }
  const OfBackend& its = found->second;
  for (const auto& [state, gauge] : its.states) gauge->Set(state == backend.state ? 1 : 0);
  its.in_flight->Set(backend.in_flight);
  its.concurrency->Set(backend.concurrency);
  its.outstanding_tokens->Set(static_cast<double>(backend.outstanding_tokens));
  its.p50->Set(backend.latency_p50_ms / 1e3);
  its.p99->Set(backend.latency_p99_ms / 1e3);
  for (const auto& [counter, value] : its.counters) {
    base::RaiseTo(counter, static_cast<double>(backend.*value));
  }
}

void GatewayMetrics::FollowTotals(const GatewaySample& sample) {
  waiting_->Set(sample.stats.queue_depth);
  running_->Set(sample.stats.running);
  batch_size_avg_->Set(sample.stats.avg_batch_size);
  batch_duration_avg_->Set(sample.stats.avg_batch_duration_ms / 1e3);
  batch_size_max_->Set(sample.stats.max_batch_size);
  batch_wait_max_->Set(sample.stats.max_batch_wait_ms / 1e3);
  for (const auto& [counter, value] : totals_) {
    base::RaiseTo(counter, static_cast<double>(sample.counts.*value));
  }
  for (size_t i = 0; i < classes_.size(); ++i) {
    const service::QueueInfo::Class& queue = sample.queue.classes[i];
    classes_[i].SetQueue(queue.waiting, queue.running, queue.wait_seconds);
  }
  sessions_.Follow(sample.sessions);
}

std::string GatewayMetrics::Text(const GatewaySample& sample) {
  {
    const std::lock_guard lock(mu_);
    FollowTotals(sample);
    for (const BackendStatus& backend : sample.backends) Follow(backend);
  }
  return metrics_.Text();
}

}  // namespace ropeway::gateway
