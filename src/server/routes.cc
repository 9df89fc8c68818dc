#include "server/routes.h"

#include "api/openai_format.h"
#include "server/generation.h"
#include "server/handlers.h"
#include "server/tokenize_handlers.h"

namespace ropeway::server {

std::vector<Route> ServerRoutes(ServerContext* context) {
  const auto plain = [context](Answer* answer) { return Plain(context, answer); };
  const RouteLimits none;
  const RouteLimits body = {.takes_body = true};
  const RouteLimits probe = {.probe = true};
  return {
      DialectRoute(context, "/v1/completions", api::MakeOpenAiCompletions),
      DialectRoute(context, "/v1/chat/completions", api::MakeOpenAiChat),
      {"GET", "/v1/models", Rights::kKey, none, plain(AnswerModels)},
      {"GET", "/v1/models/{model}", Rights::kKey, none, plain(AnswerModel)},
      {"GET", "/v1/queue", Rights::kKeyOrAdmin, none, plain(AnswerQueue)},
      {"POST", "/tokenize", Rights::kKey, body, Tokenizes(context)},
      {"POST", "/detokenize", Rights::kKey, body, Detokenizes(context)},
      {"GET", "/tokenizer_info", Rights::kKey, none, plain(AnswerTokenizerInfo)},
      {"GET", "/version", Rights::kKeyOrAdmin, none, plain(AnswerVersion)},
      {"GET", "/livez", Rights::kOpen, probe, plain(AnswerLivez)},
      {"GET", "/readyz", Rights::kOpen, probe, plain(AnswerReadyz)},
      {"GET", "/health", Rights::kOpen, probe, plain(AnswerHealth)},
      {"GET", "/metrics", Rights::kMetrics, none, plain(AnswerMetrics)},
      {"GET", "/admin/requests", Rights::kAdmin, none, plain(AnswerRequests)},
      {"POST", "/admin/requests/{id}/cancel", Rights::kAdmin, none, plain(AnswerCancel)},
      {"POST", "/admin/drain", Rights::kAdmin, none, plain(AnswerDrain)},
      {"DELETE", "/admin/drain", Rights::kAdmin, none, plain(AnswerUndrain)},
  };
}

Route DialectRoute(ServerContext* context, std::string_view path, api::ApiFormatMaker make_format) {
  return {.method = "POST",
          .path = path,
          .limits = {.takes_body = true},
          .handler = Generates(context, make_format),
          .write_error = [make_format](const api::ApiError& error) {
            return make_format()->ErrorBody(error);
          }};
}

Route NoRoute(ServerContext* context) {
  return {"", "other", Rights::kKey, {}, Plain(context, AnswerNothing)};
}

}  // namespace ropeway::server
