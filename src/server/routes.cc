#include "server/routes.h"

#include "api/openai_format.h"
#include "server/generation.h"
#include "server/handlers.h"
#include "server/tokenize_handlers.h"

namespace ropeway::server {

std::vector<http::Route> ServerRoutes(ServerContext* context) {
  const auto plain = [context](Answer* answer) { return Plain(context, answer); };
  const http::RouteLimits own;  // No page of another origin may use it.
  const http::RouteLimits none = {.cross_origin = true};
  const http::RouteLimits body = {.takes_body = true, .cross_origin = true};
  const http::RouteLimits probe = {.cross_origin = true, .probe = true};
  return {
      DialectRoute(context, "/v1/completions", api::MakeOpenAiCompletions),
      DialectRoute(context, "/v1/chat/completions", api::MakeOpenAiChat),
      {"GET", "/v1/models", http::Rights::kKey, none, plain(AnswerModels)},
      {"GET", "/v1/models/{model}", http::Rights::kKey, none, plain(AnswerModel)},
      {"GET", "/v1/queue", http::Rights::kKeyOrAdmin, own, plain(AnswerQueue)},
      {"POST", "/tokenize", http::Rights::kKey, body, Tokenizes(context)},
      {"POST", "/detokenize", http::Rights::kKey, body, Detokenizes(context)},
      {"GET", "/tokenizer_info", http::Rights::kKey, none, plain(AnswerTokenizerInfo)},
      {"GET", "/version", http::Rights::kKeyOrAdmin, none, plain(AnswerVersion)},
      {"GET", "/livez", http::Rights::kOpen, probe, plain(AnswerLivez)},
      {"GET", "/readyz", http::Rights::kOpen, probe, plain(AnswerReadyz)},
      {"GET", "/health", http::Rights::kOpen, probe, plain(AnswerHealth)},
      {"GET", "/metrics", http::Rights::kMetrics, own, plain(AnswerMetrics)},
      {"GET", "/admin/requests", http::Rights::kAdmin, own, plain(AnswerRequests)},
      {"POST", "/admin/requests/{id}/cancel", http::Rights::kAdmin, own, plain(AnswerCancel)},
      {"POST", "/admin/drain", http::Rights::kAdmin, own, plain(AnswerDrain)},
      {"DELETE", "/admin/drain", http::Rights::kAdmin, own, plain(AnswerUndrain)},
  };
}

http::Route DialectRoute(ServerContext* context, std::string_view path,
                         api::ApiFormatMaker make_format) {
  return {.method = "POST",
          .path = path,
          .limits = {.takes_body = true, .cross_origin = true},
          .handler = Generates(context, make_format),
          .write_error = [make_format](const api::ApiError& error) {
            return make_format()->ErrorBody(error);
          }};
}

http::Route NoRoute(ServerContext* context) {
  return {"", "other", http::Rights::kKey, {.cross_origin = true}, Plain(context, AnswerNothing)};
}

}  // namespace ropeway::server
