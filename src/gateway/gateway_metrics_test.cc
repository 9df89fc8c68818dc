// What a gateway tells of its backends and batches, and that its metrics are the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/gateway_backend.h"
#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

using testing::HasSubstr;

// The value of one series of /metrics, which is written as there.
double SeriesOf(const std::string& metrics, const std::string& series) {
  const size_t at = ("\n" + metrics).find("\n" + series + " ");
  if (at != std::string::npos) return std::stod(metrics.substr(at + series.size() + 1));
  ADD_FAILURE() << "no series " << series << " in\n" << metrics;
  return -1;
}

// The metrics of the backend say the same as its status.
void ExpectInMetrics(const BackendStatus& status, const std::string& metrics) {
  const std::string backend = "{backend=\"" + status.name + "\",";
  const std::string model = "model=\"" + status.model + "\"";
  const auto expect = [&](const std::string& series, auto value) {
    EXPECT_NEAR(SeriesOf(metrics, "ropeway_backend_" + series), static_cast<double>(value), 1e-9)
        << series;
  };
  for (const char* state : {"up", "returning", "busy", "not_ready", "draining", "ejected"}) {
    expect("state" + backend + model + ",state=\"" + state + "\"}", status.state == state ? 1 : 0);
  }
  const std::string labels = backend + model + "}";
  expect("in_flight" + labels, status.in_flight);
  expect("concurrency" + labels, status.concurrency);
  expect("outstanding_tokens" + labels, status.outstanding_tokens);
  expect("requests_total" + labels, status.sent);
  expect("completed_total" + labels, status.completed);
  expect("ejections_total" + labels, status.ejections);
  expect("retries_total" + labels, status.retries);
  expect("resumptions_total" + labels, status.resumptions);
  const std::string latency = "latency_seconds" + backend + model + ",quantile=";
  expect(latency + "\"0.5\"}", status.latency_p50_ms / 1e3);
  expect(latency + "\"0.99\"}", status.latency_p99_ms / 1e3);
  const std::string failures = "failures_total" + backend + "kind=";
  expect(failures + "\"unreachable\"," + model + "}", status.unreachable);
  expect(failures + "\"busy\"," + model + "}", status.busy);
  expect(failures + "\"broken\"," + model + "}", status.broken);
  expect(failures + "\"rejected\"," + model + "}", status.rejected);
  expect(failures + "\"timeout\"," + model + "}", status.timeouts);
}

// The series of batches and requests follow too; GET /health shows the same numbers.
void ExpectInMetrics(const EngineStats& stats, const std::string& metrics) {
  const auto expect = [&](const std::string& series, auto value) {
    EXPECT_NEAR(SeriesOf(metrics, "ropeway_" + series), static_cast<double>(value), 1e-9) << series;
  };
  expect("batches_total", stats.total_batches);
  expect("batched_requests_total", stats.total_requests);
  expect("batch_size_avg", stats.avg_batch_size);
  expect("batch_duration_avg_seconds", stats.avg_batch_duration_ms / 1e3);
  expect("batch_size_max", stats.max_batch_size);
  expect("batch_wait_max_seconds", stats.max_batch_wait_ms / 1e3);
  expect("num_requests_waiting", stats.queue_depth);
  expect("num_requests_running", stats.running);
}

TEST(GatewayBackendTest, ItTellsHowItsBackendsDo) {
  ScriptedGateway gateway({std::make_shared<ScriptedBackend>()});
  for (int i = 0; i < 3; ++i) gateway.Submit(ScriptedRequest())->WaitEnd();
  const std::vector<BackendStatus> backends = gateway->Backends();
  ASSERT_EQ(backends.size(), 1U);
  EXPECT_EQ(backends[0].model, "m");
  EXPECT_EQ(backends[0].name, "a");
  EXPECT_EQ(backends[0].state, "up");
  EXPECT_EQ(backends[0].in_flight, 0);
  EXPECT_EQ(backends[0].concurrency, 1000);
  EXPECT_FALSE(backends[0].learned);
  EXPECT_EQ(backends[0].sent, 3U);
  EXPECT_EQ(backends[0].completed, 3U);
  EXPECT_GT(backends[0].latency_p50_ms, 0);
  const EngineStats stats = gateway->Stats();
  EXPECT_EQ(stats.total_requests, 3U);
  EXPECT_EQ(stats.queue_depth, 0);
  const std::string metrics = gateway->MetricsText();
  for (const char* line :
       {"ropeway_backend_requests_total{backend=\"a\",model=\"m\"} 3",
        "ropeway_backend_state{backend=\"a\",model=\"m\",state=\"up\"} 1",
        "ropeway_backend_state{backend=\"a\",model=\"m\",state=\"ejected\"} 0",
        "ropeway_request_success_total{finished_reason=\"length\"} 3",
        "ropeway_generation_tokens_total 15", "ropeway_prompt_tokens_total 21",
        "ropeway_time_to_first_token_seconds_count{priority=\"medium\"} 3",
        "ropeway_request_queue_time_seconds_count{priority=\"medium\"} 3",
        "ropeway_request_formation_time_seconds_count{priority=\"medium\"} 3",
        "ropeway_request_prefill_time_seconds_count{priority=\"medium\"} 3",
        "ropeway_request_decode_time_seconds_count{priority=\"medium\"} 3",
        "ropeway_request_output_time_seconds_count{priority=\"medium\"} 3",
        "ropeway_e2e_request_latency_seconds_count{priority=\"medium\"} 3", "ropeway_sessions 0"}) {
    EXPECT_THAT(metrics, HasSubstr(line));
  }
  ExpectInMetrics(backends[0], metrics);
  ExpectInMetrics(stats, metrics);
}

// One that does what the prompt says; what is sent a second time after a hang is answered.
std::shared_ptr<ScriptedBackend> Obedient() {
  using Kind = FailureKind;
  const auto hung = std::make_shared<std::atomic<bool>>(false);
  auto backend = std::make_shared<ScriptedBackend>([hung](const Request& request) {
    const std::string prompt = std::get<std::string>(request.prompt);
    BackendScript script;
    if (prompt == "cut" && request.resume_ids.empty()) script.fail_after = 2;
    if (prompt == "hang" && !hung->exchange(true)) script.hang_after = 0;
    if (prompt == "stay") script.hang_after = 1;
    const std::pair<const char*, Kind> kinds[] = {{"broken", Kind::kBroken},
                                                  {"rejected", Kind::kRejected},
                                                  {"busy", Kind::kBusy},
                                                  {"unreachable", Kind::kUnreachable}};
    for (const auto& [name, kind] : kinds) {
      if (prompt != name) continue;
      script.fail_in_start = true;
      script.failure.kind = kind;
    }
    return script;
  });
  backend->set_resumes(true);
  backend->set_facts(ResumableFacts());
  return backend;
}

TEST(GatewayBackendTest, ItsMetricsAreWhatItTells) {
  ScriptedGateway gateway({Obedient()}, [](GatewayConfig* config) {
    config->dispatch.failover.max_retries = 1;
    config->dispatch.failover.first_byte_timeout = std::chrono::milliseconds(500);
    config->dispatch.failover.idle_timeout = std::chrono::milliseconds(0);
  });
  // "cut" before what makes the backend's identity unknown for a moment.
  for (const char* prompt : {"plain", "cut", "broken", "rejected", "busy", "hang", "unreachable"}) {
    gateway.Submit(ScriptedRequest(prompt))->WaitEnd();
  }
  const auto is_up = [&] { return gateway->Backends()[0].state == "up"; };
  EXPECT_TRUE(Eventually(is_up));
  const auto stays = gateway.Submit(ScriptedRequest("stay"));
  ASSERT_TRUE(stays->WaitDeltas(1));
  const BackendStatus status = gateway->Backends()[0];
  EXPECT_EQ(status.state, "up");
  EXPECT_EQ(status.reason, "");
  EXPECT_EQ(status.in_flight, 1);
  EXPECT_FALSE(status.learned);
  EXPECT_EQ(status.sent, 13U);  // "plain", "rejected" and "stay" once, the others twice.
  EXPECT_EQ(status.completed, 3U);
  EXPECT_EQ(status.ejections, 1U);
  EXPECT_EQ(status.unreachable, 2U);
  EXPECT_EQ(status.busy, 2U);
  EXPECT_EQ(status.broken, 3U);
  EXPECT_EQ(status.rejected, 1U);
  EXPECT_EQ(status.timeouts, 1U);
  EXPECT_EQ(status.retries, 4U);
  EXPECT_EQ(status.resumptions, 1U);
  EXPECT_GE(status.latency_p99_ms, status.latency_p50_ms);
  const EngineStats stats = gateway->Stats();
  EXPECT_TRUE(stats.enabled);
  EXPECT_EQ(stats.running, 1);
  const std::string metrics = gateway->MetricsText();
  ExpectInMetrics(status, metrics);
  ExpectInMetrics(stats, metrics);
}

}  // namespace
}  // namespace ropeway::gateway
