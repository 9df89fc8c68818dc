#include "server/plain_handlers.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/admin_handlers.h"
#include "server/openai_response.h"
#include "server/queue_handler.h"

namespace ropeway {
namespace {

HttpReply HealthReply(bool good, const std::string& reason) {
  nlohmann::ordered_json body = {{"status", good ? "ok" : "unavailable"}};
  if (!good) body["reason"] = reason;
  HttpReply reply;
  reply.status = good ? 200 : 503;
  reply.body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return reply;
}

HttpReply AnswerHealth(Route route, const ServerContext& context) {
  const Health health = context.backend->GetHealth();
  if (route == Route::kLivez) return HealthReply(health.live, health.reason);
  if (!context.accepting) return HealthReply(false, "The server is stopping.");
  const bool good = route == Route::kReadyz ? health.ready : health.live && health.ready;
  return HealthReply(good, health.reason);
}

HttpReply AnswerMetrics(const ServerContext& context) {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = context.backend->MetricsText() + context.metrics.Text();
  return reply;
}

HttpReply AnswerVersion() {
  HttpReply reply;
  reply.body = nlohmann::ordered_json({{"version", ROPEWAY_VERSION}}).dump();
  return reply;
}

// A part of a path without its percent-encoding (RFC 3986, section 2.1): clients write the '/' of a
// name so. What is no encoding stays.
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

HttpReply AnswerModel(std::string_view name, const Backend& backend) {
  StatusOr<ModelInfo> model = FindModel(PercentDecoded(name), backend);
  if (!model.ok()) return ErrorReply(ToApiError(model.status()));
  HttpReply reply;
  reply.body = ModelJson(*model);
  return reply;
}

}  // namespace

StatusOr<ModelInfo> FindModel(const std::string& name, const Backend& backend) {
  std::vector<ModelInfo> models = backend.Models();
  const bool any = name.empty() || name == "default";
  for (ModelInfo& model : models) {
    if (any || model.id == name) return std::move(model);
  }
  return Status(StatusCode::kNotFound,
                fmt::format("The model '{}' does not exist.", name.substr(0, 200)), "model");
}

HttpReply AnswerPlain(const RouteMatch& match, const Caller& caller, ServerContext* context) {
  switch (match.route) {
    case Route::kModels: {
      HttpReply reply;
      reply.body = ModelsJson(context->backend->Models());
      return reply;
    }
    case Route::kModel:
      return AnswerModel(match.argument, *context->backend);
    case Route::kQueue:
      return AnswerQueue(caller, *context->backend);
    case Route::kLivez:
    case Route::kReadyz:
    case Route::kHealth:
      return AnswerHealth(match.route, *context);
    case Route::kMetrics:
      return AnswerMetrics(*context);
    case Route::kVersion:
      return AnswerVersion();
    case Route::kAdminRequests:
    case Route::kAdminCancel:
    case Route::kAdminDrain:
      return AnswerAdmin(match, context);
    default:
      return ErrorReply({404, "There is nothing at this path.", "invalid_request_error", "", ""});
  }
}

}  // namespace ropeway
