#include "server/handlers.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/json.h"

namespace ropeway::server {
namespace {

using Json = nlohmann::ordered_json;

HttpReply JsonReply(const Json& body) {
  HttpReply reply;
  reply.body = api::DumpJson(body);
  return reply;
}

// --- Health, metrics and version.

// GET /health's "batching". A batch is what started together; with the strategy "continuous" that
// is less telling than the steps, so both are shown.
Json BatchingJson(const EngineStats& stats) {
  return {{"enabled", stats.enabled},
          {"strategy", stats.strategy},
          {"total_batches", stats.total_batches},
          {"total_requests", stats.total_requests},
          {"avg_batch_size", stats.avg_batch_size},
          {"avg_batch_duration_ms", stats.avg_batch_duration_ms},
          {"queue_depth", stats.queue_depth},
          {"max_batch_size", stats.max_batch_size},
          {"max_batch_wait_ms", stats.max_batch_wait_ms},
          {"total_steps", stats.total_steps},
          {"total_rows", stats.total_rows},
          {"avg_step_size", stats.avg_step_size},
          {"avg_step_rows", stats.avg_step_rows},
          {"avg_step_duration_ms", stats.avg_step_duration_ms}};
}

// GET /health's "backends": those behind a gateway.
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

HttpReply AnswerHealth(Route route, const Caller& caller, const ServerContext& context) {
  const engine::Health health = context.backend->GetHealth();
  bool good = route == Route::kLivez ? health.live : health.ready;
  if (route == Route::kHealth) good = health.live && health.ready;
  std::string reason = health.reason;
  if (route != Route::kLivez && !context.accepting) {
    good = false;
    reason = "The server is stopping.";
  }
  Json body = {{"status", good ? "ok" : "unavailable"}};
  if (!good) body["reason"] = reason;
  if (route == Route::kHealth && caller.sees_all) {
    body["batching"] = BatchingJson(context.backend->Stats());
    for (const BackendStatus& backend : context.backend->Backends()) {
      body["backends"].push_back(BackendJson(backend));
    }
  }
  HttpReply reply = JsonReply(body);
  reply.status = good ? 200 : 503;
  return reply;
}

HttpReply AnswerMetrics(const Caller& caller, const ServerContext& context) {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  if (caller.sees_all) reply.body = context.backend->MetricsText() + context.metrics.Text();
  reply.body += context.metrics.TenantText(context.key_limits.Usage(),
                                           caller.sees_all ? std::string() : caller.tenant);
  return reply;
}

// --- Models.

// For a gateway with what tells it whether another server has the same model.
Json ModelJson(const engine::ModelInfo& model, const Caller& caller) {
  Json json = {
      {"id", model.id}, {"object", "model"}, {"created", model.created}, {"owned_by", "ropeway"}};
  if (model.max_model_len > 0) json["max_model_len"] = model.max_model_len;
  if (!caller.gateway) return json;
  json["ropeway"] = {
      {"digest", model.digest}, {"numerics", model.numerics}, {"limits", model.limits}};
  if (model.vocabulary > 0) json["ropeway"]["vocabulary"] = model.vocabulary;
  return json;
}

// "'a', 'b' and 3 more".
std::string NamesOf(const std::vector<engine::ModelInfo>& models) {
  constexpr size_t kMostNames = 10;
  if (models.empty()) return "none";
  std::string names;
  for (size_t i = 0; i < std::min(models.size(), kMostNames); ++i) {
    names += fmt::format("{}'{}'", i == 0 ? "" : ", ", models[i].id);
  }
  if (models.size() > kMostNames) names += fmt::format(" and {} more", models.size() - kMostNames);
  return names;
}

HttpReply AnswerModels(const Caller& caller, const engine::Backend& backend) {
  Json data = Json::array();
  for (const engine::ModelInfo& model : backend.Models()) {
    data.push_back(ModelJson(model, caller));
  }
  return JsonReply({{"object", "list"}, {"data", std::move(data)}});
}

// Decodes the percent-encoding in a part of a path (RFC 3986, section 2.1): clients write the '/'
// of a name so. What is not an encoding stays as it is.
std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

HttpReply AnswerModel(std::string_view name, const Caller& caller, const engine::Backend& backend) {
  StatusOr<engine::ModelInfo> model = FindModel(PercentDecoded(name), backend);
  if (!model.ok()) return ErrorReply(api::ToApiError(model.status()));
  return JsonReply(ModelJson(*model, caller));
}

// --- The queue.

const char* StateName(engine::RequestInfo::State state) {
  switch (state) {
    case engine::RequestInfo::State::kEncoding:
      return "encoding";
    case engine::RequestInfo::State::kWaiting:
      return "waiting";
    case engine::RequestInfo::State::kRunning:
      return "running";
    case engine::RequestInfo::State::kPreempted:
      return "preempted";
  }
  return "";
}

Json RequestJson(const engine::RequestInfo& request, bool with_tenant) {
  Json json = {{"id", request.id}};
  if (with_tenant) json["tenant"] = request.tenant;
  json["priority"] = PriorityName(request.priority);
  json["state"] = StateName(request.state);
  json["position"] = request.queue_position >= 0 ? Json(request.queue_position) : Json(nullptr);
  json["age_seconds"] = request.age_seconds;
  return json;
}

// The numbers by class, waits and requests of the caller's tenant; for an admin those of all, with
// their tenants, and the longest waits; for a gateway the numbers and waits of all. No prompts.
// What the first request waits for is told to whose it is, and to who sees all.
HttpReply AnswerQueue(const Caller& caller, const engine::Backend& backend) {
  const bool all = caller.admin || caller.gateway;
  const engine::QueueInfo queue = backend.Queue(all ? nullptr : &caller.tenant, caller.weight);
  Json classes;
  for (int i = 0; i < kNumPriorities; ++i) {
    const engine::QueueInfo::Class& one = queue.classes[static_cast<size_t>(i)];
    classes[PriorityName(static_cast<Priority>(i))] = {
        {"waiting", one.waiting}, {"running", one.running}, {"wait_seconds", one.wait_seconds}};
  }
  Json requests = Json::array();
  bool shows_rule = caller.sees_all;
  for (const engine::RequestInfo& request : backend.Requests()) {
    if (!caller.admin && request.tenant != caller.tenant) continue;
    requests.push_back(RequestJson(request, caller.admin));
    if (request.waits() && request.queue_position == 0) shows_rule = true;
  }
  shows_rule = shows_rule && !queue.blocked_by.empty();
  const Json body = {{"object", "queue"},
                     {"blocked_by", shows_rule ? Json(queue.blocked_by) : Json(nullptr)},
                     {"classes", std::move(classes)},
                     {"requests", std::move(requests)}};
  return JsonReply(body);
}

// --- The admin paths.

HttpReply AnswerRequests(const engine::Backend& backend) {
  Json list = Json::array();
  for (const engine::RequestInfo& request : backend.Requests()) {
    list.push_back({{"id", request.id},
                    {"tenant", request.tenant},
                    {"priority", PriorityName(request.priority)},
                    {"started", request.started()},
                    {"age_seconds", request.age_seconds}});
  }
  return JsonReply({{"object", "list"}, {"data", std::move(list)}});
}

std::optional<RequestId> ParseId(std::string_view text) {
  RequestId id = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || stop != end) return std::nullopt;
  return id;
}

HttpReply AnswerCancel(std::string_view argument, engine::Backend* backend) {
  const std::optional<RequestId> id = ParseId(argument);
  const std::vector<engine::RequestInfo> all =
      id ? backend->Requests() : std::vector<engine::RequestInfo>();
  const bool found = std::any_of(all.begin(), all.end(), [&](const engine::RequestInfo& request) {
    return request.id == *id;
  });
  if (!found) {
    return ErrorReply({404, fmt::format("No request '{}' is under way.", argument.substr(0, 40)),
                       "invalid_request_error", "id", "request_not_found"});
  }
  backend->Cancel(*id);
  spdlog::info("Admin: request {} is cancelled", *id);
  return JsonReply({{"id", *id}, {"cancelled", true}});
}

HttpReply AnswerDrain(ServerContext* context) {
  const bool was_accepting = context->accepting.exchange(false);
  if (was_accepting) spdlog::info("Admin: no new requests are accepted");
  return JsonReply({{"draining", true}, {"requests", context->backend->Requests().size()}});
}

}  // namespace

StatusOr<engine::ModelInfo> FindModel(const std::string& name, const engine::Backend& backend) {
  std::vector<engine::ModelInfo> models = backend.Models();
  const bool any = name.empty() || name == "default";
  for (engine::ModelInfo& model : models) {
    if (any || model.id == name) return std::move(model);
  }
  return Status(StatusCode::kNotFound,
                fmt::format("The model '{}' does not exist; this server has {}.",
                            name.substr(0, 200), NamesOf(models)),
                "model");
}

StatusOr<engine::ModelInfo> ModelToAsk(const std::string& name, const engine::Backend& backend) {
  StatusOr<engine::ModelInfo> model = FindModel(name, backend);
  if (model.ok() || !backend.MayServe(name)) return model;
  engine::ModelInfo unlisted;
  unlisted.id = name;
  return unlisted;
}

HttpReply AnswerPlain(const RouteMatch& match, const Caller& caller, ServerContext* context) {
  engine::Backend* const backend = context->backend;
  switch (match.route) {
    case Route::kModels:
      return AnswerModels(caller, *backend);
    case Route::kModel:
      return AnswerModel(match.argument, caller, *backend);
    case Route::kQueue:
      return AnswerQueue(caller, *backend);
    case Route::kLivez:
    case Route::kReadyz:
    case Route::kHealth:
      return AnswerHealth(match.route, caller, *context);
    case Route::kMetrics:
      return AnswerMetrics(caller, *context);
    case Route::kVersion:
      return JsonReply({{"version", ROPEWAY_VERSION}});
    case Route::kAdminRequests:
      return AnswerRequests(*backend);
    case Route::kAdminCancel:
      return AnswerCancel(match.argument, backend);
    case Route::kAdminDrain:
      return AnswerDrain(context);
    case Route::kGenerate:
    case Route::kTokenize:
    case Route::kDetokenize:
    case Route::kUnknown:
      break;
  }
  return ErrorReply({404, "There is nothing at this path.", "invalid_request_error", "", ""});
}

HttpReply RejectionReply(const Status& status, const engine::Backend& backend,
                         const std::string& tenant) {
  HttpReply reply = ErrorReply(api::ToApiError(status));
  if (reply.status == 429 || reply.status == 503) {
    const int known = status.retry_after_seconds();
    const int seconds = known > 0 ? known : backend.RetryAfterSeconds(tenant);
    reply.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  // OpenAI's clients would send a request that ran out of its own time again.
  if (reply.status == 408) reply.headers.emplace_back("x-should-retry", "false");
  return reply;
}

}  // namespace ropeway::server
