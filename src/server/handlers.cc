#include "server/handlers.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "api/json.h"
#include "base/words.h"
#include "core/request_check.h"
#include "http/exchange.h"
#include "server/status_json.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;
using Json = nlohmann::ordered_json;

http::HttpReply JsonReply(const Json& body) {
  http::HttpReply reply;
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

http::HttpReply HealthReply(bool good, const std::string& reason, const Json& more = Json::object(),
                            const char* bad = "unavailable") {
  Json body = {{"status", good ? "ok" : bad}};
  if (!good) body["reason"] = reason;
  body.update(more);
  http::HttpReply reply = JsonReply(body);
  reply.status = good ? 200 : 503;
  return reply;
}

// Says whether requests are taken. `good`: what stands behind the server takes them.
http::HttpReply ReadyReply(bool good, const std::string& reason, const ServerContext& context,
                           const Json& more = Json::object()) {
  const http::HttpContext::State state = context.http.state;
  if (state == http::HttpContext::State::kServing) return HealthReply(good, reason, more);
  const bool drains = state == http::HttpContext::State::kDraining;
  return HealthReply(false, NotAccepting(state), more, drains ? "draining" : "stopping");
}

// --- Models.

// The entry of one of its names; for a gateway with what tells it whether another server has the
// same model.
Json ModelJson(const service::ModelInfo& model, const std::string& name,
               const http::Caller& caller) {
  Json json = {
      {"id", name}, {"object", "model"}, {"created", model.created}, {"owned_by", "ropeway"}};
  // As Anthropic's clients read it.
  json["type"] = "model";
  json["display_name"] = name;
  json["created_at"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(model.created));
  if (model.max_model_len > 0) json["max_model_len"] = model.max_model_len;
  if (model.embeds_only) json["embeds_only"] = true;
  if (!caller.gateway) return json;
  json["ropeway"] = {
      {"digest", model.digest}, {"numerics", model.numerics}, {"limits", model.limits}};
  if (model.vocabulary > 0) json["ropeway"]["vocabulary"] = model.vocabulary;
  return json;
}

// --- The queue.

Json RequestJson(const service::RequestInfo& request, bool with_tenant) {
  Json json = {{"id", request.id}};
  if (with_tenant) json["tenant"] = request.tenant;
  json["priority"] = PriorityName(request.priority);
  json["state"] = StateName(request.state);
  json["position"] = request.queue_position >= 0 ? Json(request.queue_position) : Json(nullptr);
  json["age_seconds"] = request.age_seconds;
  return json;
}

using State = http::HttpContext::State;

// What /admin/drain has done.
http::HttpReply DrainReply(const ServerContext& context) {
  int64_t running = 0;
  int64_t waiting = 0;
  for (const service::RequestInfo& request : context.backend->Requests()) {
    ++(request.state == service::RequestInfo::State::kRunning ? running : waiting);
  }
  const char* message = "New requests are accepted.";
  if (context.http.state == State::kDraining) {
    message =
        "New requests and /readyz get a 503. Running and waiting requests continue to their end. "
        "The "
        "server stays up; DELETE /admin/drain lets it accept new requests again.";
  } else if (context.http.state == State::kStopping) {
    message = "The server is stopping: it exits when its running and waiting requests have ended.";
  }
  return JsonReply({{"draining", !context.http.accepting()},
                    {"running", running},
                    {"waiting", waiting},
                    {"message", message}});
}

}  // namespace

const char* NotAccepting(http::HttpContext::State state) {
  return state == State::kDraining ? "The server is draining." : "The server is stopping.";
}

http::HttpReply AnswerLivez(const http::HttpRequest& /*request*/, ServerContext* context) {
  const service::Health health = context->backend->GetHealth();
  return HealthReply(health.live, health.reason);
}

http::HttpReply AnswerReadyz(const http::HttpRequest& /*request*/, ServerContext* context) {
  const service::Health health = context->backend->GetHealth();
  return ReadyReply(health.ready, health.reason, *context);
}

http::HttpReply AnswerHealth(const http::HttpRequest& request, ServerContext* context) {
  const service::Health health = context->backend->GetHealth();
  Json more = Json::object();
  if (request.caller.sees_all) {
    more["batching"] = BatchingJson(context->backend->Stats());
    for (const BackendStatus& backend : context->backend->Backends()) {
      more["backends"].push_back(BackendJson(backend));
    }
  }
  return ReadyReply(health.live && health.ready, health.reason, *context, more);
}

http::HttpReply AnswerMetrics(const http::HttpRequest& request, ServerContext* context) {
  const http::Caller& caller = request.caller;
  http::HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  if (caller.sees_all) {
    reply.body = context->backend->MetricsText() + context->http.metrics.Text();
    if (context->stored != nullptr) reply.body += context->stored->MetricsText();
  }
  reply.body += TenantText(context->http.metrics, context->key_limits.Usage(),
                           caller.sees_all ? std::string() : caller.tenant);
  return reply;
}

http::HttpReply AnswerVersion(const http::HttpRequest& /*request*/, ServerContext* /*context*/) {
  return JsonReply({{"version", ROPEWAY_VERSION}});
}

http::HttpReply AnswerOpenApi(const http::HttpRequest& /*request*/, ServerContext* context) {
  http::HttpReply reply;
  reply.body = OpenApiJson(context->http.routes.routes());
  return reply;
}

http::HttpReply AnswerModels(const http::HttpRequest& request, ServerContext* context) {
  Json data = Json::array();
  for (const service::ModelInfo& model : context->backend->Models()) {
    data.push_back(ModelJson(model, model.id, request.caller));
    for (const std::string& alias : model.aliases) {
      data.push_back(ModelJson(model, alias, request.caller));
    }
  }
  const auto id_of = [](const Json& entries, bool last) {
    return entries.empty() ? Json() : (last ? entries.back() : entries.front())["id"];
  };
  Json list = {{"object", "list"},
               {"has_more", false},
               {"first_id", id_of(data, false)},
               {"last_id", id_of(data, true)}};
  list["data"] = std::move(data);
  return JsonReply(list);
}

http::HttpReply AnswerModel(const http::HttpRequest& request, ServerContext* context) {
  const std::string name = base::PercentDecoded(request.match.arguments.front());
  const StatusOr<service::ModelInfo> model = FindModel(name, *context);
  if (!model.ok()) return http::ErrorReply(api::ToApiError(model.status()));
  return JsonReply(
      ModelJson(*model, core::IsDefaultModel(name) ? model->id : name, request.caller));
}

// As vLLM writes it, for lm-eval: the texts of control tokens, null where there is none.
http::HttpReply AnswerTokenizerInfo(const http::HttpRequest& request, ServerContext* context) {
  const StatusOr<service::TokenizerInfo> info = context->backend->DescribeTokenizer();
  if (!info.ok()) {
    return context->Rejection(info.status(), request.caller.tenant);
  }
  const auto known = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return JsonReply({{"bos_token", known(info->bos_token)},
                    {"eos_token", known(info->eos_token)},
                    {"pad_token", nullptr},
                    {"chat_template", known(info->chat_template)}});
}

// The queue, without prompts. A caller sees its own tenant's numbers by class, waits and requests.
// An admin sees all tenants' numbers and requests, with their names, and the longest waits. A
// gateway sees the numbers and waits of all tenants, and the requests of its own. What keeps the
// first request waiting is shown to the tenant of that request and to callers that see all.
http::HttpReply AnswerQueue(const http::HttpRequest& request, ServerContext* context) {
  const http::Caller& caller = request.caller;
  const service::FrontDesk& backend = *context->backend;
  const bool all = caller.admin || caller.gateway;
  const service::QueueInfo queue = backend.Queue(all ? nullptr : &caller.tenant, caller.weight);
  Json classes;
  for (int i = 0; i < kNumPriorities; ++i) {
    const service::QueueInfo::Class& one = queue.classes[static_cast<size_t>(i)];
    classes[PriorityName(static_cast<Priority>(i))] = {
        {"waiting", one.waiting}, {"running", one.running}, {"wait_seconds", one.wait_seconds}};
  }
  Json requests = Json::array();
  bool shows_rule = caller.sees_all;
  for (const service::RequestInfo& one : backend.Requests()) {
    if (!caller.admin && one.tenant != caller.tenant) continue;
    requests.push_back(RequestJson(one, caller.admin));
    if (one.waits() && one.queue_position == 0) shows_rule = true;
  }
  shows_rule = shows_rule && !queue.blocked_by.empty();
  const Json body = {{"object", "queue"},
                     {"blocked_by", shows_rule ? Json(queue.blocked_by) : Json(nullptr)},
                     {"classes", std::move(classes)},
                     {"requests", std::move(requests)}};
  return JsonReply(body);
}

http::HttpReply AnswerRequests(const http::HttpRequest& /*request*/, ServerContext* context) {
  Json list = Json::array();
  for (const service::RequestInfo& request : context->backend->Requests()) {
    list.push_back({{"id", request.id},
                    {"tenant", request.tenant},
                    {"priority", PriorityName(request.priority)},
                    {"started", request.started()},
                    {"age_seconds", request.age_seconds}});
  }
  return JsonReply({{"object", "list"}, {"data", std::move(list)}});
}

http::HttpReply AnswerCancel(const http::HttpRequest& request, ServerContext* context) {
  const std::string& argument = request.match.arguments.front();
  const std::optional<RequestId> id = base::ParseNumber<RequestId>(argument);
  if (!id || !context->backend->Cancel(*id).ok()) {
    return http::ErrorReply({404,
                             fmt::format("No request '{}' is under way.", argument.substr(0, 40)),
                             "invalid_request_error", "id", "request_not_found"});
  }
  spdlog::info("Admin: request {} is cancelled", *id);
  return JsonReply({{"id", *id}, {"cancelled", true}});
}

http::HttpReply AnswerDrain(const http::HttpRequest& /*request*/, ServerContext* context) {
  State serving = State::kServing;
  if (context->http.state.compare_exchange_strong(serving, State::kDraining)) {
    spdlog::info("Admin: no new requests are accepted until DELETE /admin/drain");
  }
  return DrainReply(*context);
}

http::HttpReply AnswerUndrain(const http::HttpRequest& /*request*/, ServerContext* context) {
  State draining = State::kDraining;
  if (context->http.state.compare_exchange_strong(draining, State::kServing)) {
    spdlog::info("Admin: new requests are accepted again");
  }
  if (context->http.state == State::kStopping) {
    return http::ErrorReply({409, "The server is stopping, which cannot be undone.",
                             "invalid_request_error", "", "server_stopping"});
  }
  return DrainReply(*context);
}

namespace {

// What clients of other APIs ask for; "" where it is none of that.
std::string ForOtherApi(std::string_view path) {
  constexpr std::string_view kVersion = "/v1";
  if (path.ends_with('/')) path.remove_suffix(1);
  if (path.starts_with(kVersion)) path.remove_prefix(kVersion.size());
  static constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"/edits", "OpenAI's Edits API"},
  };
  for (const auto& [other, what] : kOthers) {
    if (path != other) continue;
    return fmt::format("{} is not supported; use /v1/chat/completions.", what);
  }
  return {};
}

}  // namespace

http::HttpReply AnswerNothing(const http::HttpRequest& request, ServerContext* context) {
  // A path that is known and switched off has none.
  const std::vector<std::string>& arguments = request.match.arguments;
  const std::string path = arguments.empty() ? std::string() : arguments.front();
  const std::string other = ForOtherApi(path);
  if (!other.empty()) return http::ErrorReply({404, other, "invalid_request_error", "", ""});
  const std::string_view meant = context->http.routes.Suggest(path);
  const std::string message =
      meant.empty() ? "There is nothing at this path."
                    : fmt::format("There is nothing at this path; did you mean {}?", meant);
  return http::ErrorReply({404, message, "invalid_request_error", "", ""});
}

namespace {

asio::awaitable<http::Sent> AnswerInTurn(std::shared_ptr<http::Exchange> exchange,
                                         ServerContext* context, Answer* answer) {
  http::IoTurns::Turn turn;
  if (!exchange->route().limits.probe) {
    base::Flow flow = http::FlowOf(exchange->request.caller);
    co_await exchange->turns->Begin(std::move(flow), exchange->stream, &turn);
  }
  http::HttpReply reply = answer(exchange->request, context);
  turn.End();
  const http::Sent sent = co_await exchange->Send(std::move(reply));
  co_return sent;
}

}  // namespace

http::Route::Handler Plain(ServerContext* context, Answer* answer) {
  return [=](std::shared_ptr<http::Exchange> exchange) {
    return AnswerInTurn(std::move(exchange), context, answer);
  };
}

StatusOr<service::ModelInfo> FindModel(const std::string& name, const ServerContext& context) {
  std::vector<service::ModelInfo> models = context.backend->Models();
  for (service::ModelInfo& model : models) {
    if (core::IsDefaultModel(name) || service::IsNamed(model, name)) return std::move(model);
  }
  const std::vector<std::string>& others = context.other_names;
  if (models.size() == 1 && std::find(others.begin(), others.end(), name) != others.end()) {
    return std::move(models.front());
  }
  return service::NoSuchModel(name, models);
}

StatusOr<service::ModelInfo> ModelToAsk(const std::string& name, const http::Caller& caller,
                                        const ServerContext& context) {
  const service::FrontDesk& backend = *context.backend;
  StatusOr<service::ModelInfo> model = FindModel(name, context);
  if (model.ok()) return model;
  if (backend.MayServe(name)) {
    service::ModelInfo unlisted;
    unlisted.id = name;
    return unlisted;
  }
  if (!context.any_model || caller.gateway) return model;
  std::vector<service::ModelInfo> models = backend.Models();
  return models.size() == 1 ? std::move(models.front()) : std::move(model);
}

}  // namespace ropeway::server
