#include "server/routes.h"

#include "api/openai_format.h"
#include "server/generation.h"
#include "server/handlers.h"

namespace ropeway::server {

std::vector<http::Route> ServerRoutes(ServerContext* context) {
  const auto plain = [context](Answer* answer) { return Plain(context, answer); };
  const http::RouteLimits own;  // No page of another origin may use it.
  const http::RouteLimits none = {.cross_origin = true};
  const http::RouteLimits body = {.takes_body = true, .cross_origin = true};
  const http::RouteLimits page = {.page = true};
  const http::RouteLimits probe = {.cross_origin = true, .probe = true};
  return {
      DialectRoute(context, "/v1/completions", api::MakeOpenAiCompletions, "Continue a text"),
      DialectRoute(context, "/v1/chat/completions", api::MakeOpenAiChat, "Answer a chat"),
      DialectRoute(context, "/v1/responses", api::MakeOpenAiResponses,
                   "Answer a list of items: messages, thoughts, calls of tools and their outputs"),
      {"GET", "/v1/models", http::Rights::kKey, none, plain(AnswerModels), "The served models"},
      {"GET", "/v1/models/{model}", http::Rights::kKey, none, plain(AnswerModel),
       "One of the served models"},
      {"GET", "/v1/queue", http::Rights::kKeyOrAdmin, own, plain(AnswerQueue),
       "Waiting requests, and the positions of your own"},
      {"POST", "/tokenize", http::Rights::kKey, body, Tokenizes(context),
       "A text or a chat as token ids"},
      {"POST", "/detokenize", http::Rights::kKey, body, Detokenizes(context),
       "Token ids as a text"},
      {"GET", "/tokenizer_info", http::Rights::kKey, none, plain(AnswerTokenizerInfo),
       "The tokenizer's control tokens and chat template"},
      {"GET", "/version", http::Rights::kKeyOrAdmin, none, plain(AnswerVersion),
       "The program's version"},
      {"GET", "/openapi.json", http::Rights::kKeyOrAdmin, none, plain(AnswerOpenApi),
       "This description"},
      {"GET", "/livez", http::Rights::kOpen, probe, plain(AnswerLivez),
       "Whether the engine makes progress"},
      {"GET", "/readyz", http::Rights::kOpen, probe, plain(AnswerReadyz),
       "Whether new requests are admitted"},
      {"GET", "/health", http::Rights::kOpen, probe, plain(AnswerHealth),
       "Liveness and readiness, and how requests are batched"},
      {"GET", "/metrics", http::Rights::kMetrics, own, plain(AnswerMetrics),
       "Metrics for Prometheus"},
      {"GET", "/admin/events", http::Rights::kView, own, StreamsEvents(context),
       "What the server does, as a stream"},
      {"GET", "/admin/requests", http::Rights::kAdmin, own, plain(AnswerRequests),
       "Unfinished requests"},
      {"POST", "/admin/requests/{id}/cancel", http::Rights::kAdmin, own, plain(AnswerCancel),
       "End one request"},
      {"POST", "/admin/drain", http::Rights::kAdmin, own, plain(AnswerDrain),
       "Reject new requests"},
      {"DELETE", "/admin/drain", http::Rights::kAdmin, own, plain(AnswerUndrain),
       "Accept new requests again"},
      {"GET", "/", http::Rights::kOpen, page, plain(AnswerDashboard),
       "The dashboard, a page for browsers"},
      {"GET", "/chat", http::Rights::kOpen, page, plain(AnswerChat), "A chat, a page for browsers"},
      {"GET", "/web/{file}", http::Rights::kOpen, page, plain(AnswerWebFile),
       "What those pages load"},
  };
}

http::Route DialectRoute(ServerContext* context, std::string_view path,
                         api::ApiFormatMaker make_format, std::string_view summary) {
  return {.method = "POST",
          .path = path,
          .limits = {.takes_body = true, .cross_origin = true},
          .handler = Generates(context, make_format),
          .summary = summary,
          .fields = make_format()->Fields(),
          .write_error = [make_format](const api::ApiError& error) {
            return make_format()->ErrorBody(error);
          }};
}

http::Route NoRoute(ServerContext* context) {
  return {"", "other", http::Rights::kKey, {.cross_origin = true}, Plain(context, AnswerNothing)};
}

}  // namespace ropeway::server
