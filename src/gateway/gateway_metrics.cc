#include "gateway/gateway_metrics.h"

#include <string>

namespace ropeway::gateway {
namespace {

constexpr const char* kBackendStates[] = {"up",        "returning", "busy",
                                          "not_ready", "draining",  "ejected"};

}  // namespace

GatewayMetrics::GatewayMetrics(const QueueOptions& options)
    : requests(&metrics_, options),
      prompt_tokens_(metrics_.AddCounter("ropeway_prompt_tokens_total",
                                         "Prompt tokens of requests that ended with an answer.")),
      generation_tokens_(
          metrics_.AddCounter("ropeway_generation_tokens_total",
                              "Generated tokens of requests that ended with an answer.")),
      sampled_(&metrics_),
      sessions_(store::MakeSessionMetrics(&metrics_)) {
  using S = GatewaySample;
  sampled_.Add("ropeway_num_requests_waiting", "Requests waiting to be sent to a backend.",
               [](const S& s) { return s.stats.queue_depth; });
  sampled_.Add("ropeway_num_requests_running", "Requests in progress at a backend.",
               [](const S& s) { return s.stats.running; });
  sampled_.Add("ropeway_batch_size_avg", "Average number of running requests when a batch started.",
               [](const S& s) { return s.stats.avg_batch_size; });
  sampled_.Add(
      "ropeway_batch_duration_avg_seconds",
      "Average time from a batch's start to the end of the last request that started in it.",
      [](const S& s) { return s.stats.avg_batch_duration_ms / 1e3; });
  sampled_.Add("ropeway_batch_size_max",
               "Maximum number of requests in a batch; without batches: at all backends together.",
               [](const S& s) { return s.stats.max_batch_size; });
  sampled_.Add("ropeway_batch_wait_max_seconds",
               "Maximum time that a batch waits to fill; 0: it does not wait.",
               [](const S& s) { return s.stats.max_batch_wait_ms / 1e3; });
  sampled_.Add("ropeway_request_rejected_total",
               "Requests rejected because the queue was too long or no backend was available.",
               [](const S& s) { return s.counts.rejected; });
  sampled_.Add("ropeway_batches_total",
               "Batches started; without batches: times that requests were sent.",
               [](const S& s) { return s.counts.batches; });
  sampled_.Add("ropeway_batched_requests_total",
               "Requests started in the batches that ropeway_batches_total counts.",
               [](const S& s) { return s.counts.batched; });
  sampled_.Add("ropeway_gateway_retries_total",
               "Retries: requests that were sent again from the start.",
               [](const S& s) { return s.counts.retries; });
  sampled_.Add("ropeway_gateway_resumptions_total", "Streams that another backend resumed.",
               [](const S& s) { return s.counts.resumptions; });
  sampled_.Add("ropeway_gateway_delayed_retries_total",
               "Retries delayed to limit the extra load while backends fail.",
               [](const S& s) { return s.counts.retries_delayed; });
}

void GatewayMetrics::Ended(Priority priority, FinishReason reason, base::Duration after,
                           const PhaseTimes* times, const Usage& usage) {
  requests.Ended(priority, reason, after);
  if (times == nullptr) return;
  requests.of(priority).Ended(*times);
  prompt_tokens_->Increment(usage.prompt_tokens);
  generation_tokens_->Increment(usage.completion_tokens);
}

GatewayMetrics::OfBackend GatewayMetrics::MakeBackend(const BackendStatus& backend) {
  using S = BackendStatus;
  const base::Metrics::Labels labels = {{"backend", backend.name}, {"model", backend.model}};
  OfBackend its(&metrics_);
  const auto add = [&](const char* name, const char* help, OfBackend::ValueFn value,
                       const char* key = nullptr, const char* label = nullptr) {
    base::Metrics::Labels more = labels;
    if (key != nullptr) more[key] = label;
    its.Add(name, help, std::move(value), more);
  };
  for (const std::string state : kBackendStates) {
    add(
        "ropeway_backend_state", "1 for the current state of the backend, 0 for the others.",
        [state](const S& s) { return s.state == state ? 1 : 0; }, "state", state.c_str());
  }
  add("ropeway_backend_in_flight", "Requests in progress at the backend.",
      [](const S& s) { return s.in_flight; });
  add("ropeway_backend_concurrency",
      "Maximum number of concurrent requests at the backend: configured, reported by it, or "
      "learned.",
      [](const S& s) { return s.concurrency; });
  add("ropeway_backend_outstanding_tokens",
      "Predicted number of tokens that the backend has yet to generate for its requests.",
      [](const S& s) { return s.outstanding_tokens; });
  const auto latency = [&](const char* quantile, double S::*ms) {
    add(
        "ropeway_backend_latency_seconds",
        "Time from sending to end of the last requests that the backend completed (up to 256).",
        [ms](const S& s) { return s.*ms / 1e3; }, "quantile", quantile);
  };
  latency("0.5", &S::latency_p50_ms);
  latency("0.99", &S::latency_p99_ms);
  add("ropeway_backend_requests_total", "Requests sent to the backend.",
      [](const S& s) { return s.sent; });
  add("ropeway_backend_completed_total", "Requests that the backend completed.",
      [](const S& s) { return s.completed; });
  add("ropeway_backend_retries_total", "Requests sent to the backend that had failed before.",
      [](const S& s) { return s.retries; });
  add("ropeway_backend_resumptions_total", "Requests sent to the backend to resume a stream.",
      [](const S& s) { return s.resumptions; });
  add("ropeway_backend_ejections_total", "Times that the backend was taken out of service.",
      [](const S& s) { return s.ejections; });
  const auto failures = [&](const char* kind, uint64_t S::*count) {
    add(
        "ropeway_backend_failures_total",
        "Requests that failed at the backend, by kind of failure.",
        [count](const S& s) { return s.*count; }, "kind", kind);
  };
  failures("unreachable", &S::unreachable);
  failures("busy", &S::busy);
  failures("broken", &S::broken);
  failures("rejected", &S::rejected);
  failures("timeout", &S::timeouts);
  return its;
}

std::string GatewayMetrics::Text(const GatewaySample& sample) {
  {
    const std::lock_guard lock(mu_);
    sampled_.Follow(sample);
    sessions_.Follow(sample.sessions);
    for (size_t i = 0; i < kNumPriorities; ++i) {
      const service::QueueInfo::Class& queue = sample.queue.classes[i];
      requests.of(static_cast<Priority>(i))
          .SetQueue(queue.waiting, queue.running, queue.wait_seconds);
    }
    for (const BackendStatus& backend : sample.backends) {
      auto found = backends_.find(backend.name);
      if (found == backends_.end()) {
        found = backends_.emplace(backend.name, MakeBackend(backend)).first;
      }
      found->second.Follow(backend);
    }
  }
  return metrics_.Text();
}

}  // namespace ropeway::gateway
