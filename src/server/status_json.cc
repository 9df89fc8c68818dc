#include "server/status_json.h"

#include <nlohmann/json.hpp>

namespace ropeway::server {

using Json = nlohmann::ordered_json;

Json BackendJson(const BackendStatus& backend) {
  const auto known = [](double ms) { return ms > 0 ? Json(ms) : Json(nullptr); };
  return {{"model", backend.model},
          {"name", backend.name},
          {"state", backend.state},
          {"reason", backend.reason.empty() ? Json(nullptr) : Json(backend.reason)},
          {"in_flight", backend.in_flight},
          {"outstanding_tokens", backend.outstanding_tokens},
          {"concurrency", {{"limit", backend.concurrency}, {"learned", backend.learned}}},
          {"latency_ms",
           {{"p50", known(backend.latency_p50_ms)}, {"p99", known(backend.latency_p99_ms)}}},
          {"sent", backend.sent},
          {"completed", backend.completed},
          {"retries", backend.retries},
          {"resumptions", backend.resumptions},
          {"failures",
           {{"unreachable", backend.unreachable},
            {"busy", backend.busy},
            {"broken", backend.broken},
            {"rejected", backend.rejected},
            {"timeouts", backend.timeouts},
            {"ejections", backend.ejections}}}};
}

const char* StateName(service::RequestState state) {
  switch (state) {
    case service::RequestState::kEncoding:
      return "encoding";
    case service::RequestState::kWaiting:
      return "waiting";
    case service::RequestState::kRunning:
      return "running";
    case service::RequestState::kPreempted:
      return "preempted";
    case service::RequestState::kEnded:
      return "ended";
  }
  return "";
}

}  // namespace ropeway::server
