#include "server/routes.h"

#include "api/dialects.h"
#include "api/llamacpp_answer.h"
#include "api/ollama_answer.h"
#include "api/ollama_request.h"
#include "server/generation.h"
#include "server/handlers.h"
#include "server/ollama_handlers.h"
#include "server/stored_handlers.h"

namespace ropeway::server {

namespace {

// The row of a dialect that counts the tokens of prompts.
http::Route CountRoute(ServerContext* context, std::string_view path,
                       api::ApiFormatMaker make_format, std::string_view summary) {
  http::Route route = DialectRoute(context, path, make_format, summary);
  route.handler = CountsTokens(context, make_format);
  return route;
}

// A row of Anthropic's API.
http::Route AnthropicRow(http::Route route) {
  route.id_header = "request-id";
  return route;
}

}  // namespace

std::vector<http::Route> ServerRoutes(ServerContext* context) {
  const auto plain = [context](Answer* answer) { return Plain(context, answer); };
  const http::RouteLimits own;  // No page of another origin may use it.
  const http::RouteLimits none = {.cross_origin = true};
  const http::RouteLimits body = {.takes_body = true, .cross_origin = true};
  const http::RouteLimits own_body = {.takes_body = true};
  const http::RouteLimits page = {.page = true};
  const http::RouteLimits probe = {.cross_origin = true, .probe = true};
  const std::vector<std::string> no_fields;
  // The dialects, and what is done with their stored answers.
  constexpr api::ApiFormatMaker responses = api::MakeOpenAiResponses;
  constexpr api::ApiFormatMaker chat = api::MakeOpenAiChat;
  constexpr api::ApiFormatMaker text = api::MakeOpenAiCompletions;
  constexpr api::ApiFormatMaker ollama_chat = api::MakeOllamaChat;
  constexpr api::ApiFormatMaker ollama_generate = api::MakeOllamaGenerate;
  const auto shows = [=](api::ApiFormatMaker of) { return ShowsAnswer(context, of); };
  const auto cancels = [=](api::ApiFormatMaker of) { return CancelsAnswer(context, of); };
  const auto deletes = [=](api::ApiFormatMaker of, std::string_view object) {
    return DeletesAnswer(context, of, object);
  };
  const auto talk = [=](ConversationWork* work) {
    return Stored(context, [=](StoredCall* call) { return work(call, responses); });
  };
  return {
      DialectRoute(context, "/v1/completions", text, "Continue a text"),
      DialectRoute(context, "/v1/chat/completions", chat, "Answer a chat"),
      DialectRoute(context, "/v1/responses", responses,
                   "Answer a list of items: messages, thoughts, calls of tools and their outputs"),
      AnthropicRow(DialectRoute(context, "/v1/messages", api::MakeAnthropicMessages,
                                "Answer a chat, as Anthropic's API writes it")),
      AnthropicRow(CountRoute(context, "/v1/messages/count_tokens", api::MakeAnthropicCount,
                              "How many tokens the prompt of such a chat takes")),
      // Ollama's API.
      DialectRoute(context, "/api/chat", ollama_chat, "Answer a chat, in Ollama's form"),
      DialectRoute(context, "/api/generate", ollama_generate, "Answer a text, in Ollama's form"),
      {"GET", "/api/tags", http::Rights::kKey, none, plain(AnswerOllamaTags),
       "The served models, as Ollama lists them", no_fields, api::OllamaErrorJson},
      {"GET", "/api/ps", http::Rights::kKey, none, plain(AnswerOllamaPs),
       "The loaded models, as Ollama lists them", no_fields, api::OllamaErrorJson},
      {"GET", "/api/version", http::Rights::kKey, none, plain(AnswerOllamaVersion),
       "The version of Ollama whose API this is", no_fields, api::OllamaErrorJson},
      {"POST", "/api/show", http::Rights::kKey, body, plain(AnswerOllamaShow),
       "What a served model is", api::OllamaModelFields(), api::OllamaErrorJson},
      {"POST", "/api/pull", http::Rights::kView, own_body, PullsModel(context),
       "Fetch a model, which a later start of the server may serve", api::OllamaModelFields(),
       api::OllamaErrorJson},
      {"POST", "/api/create", http::Rights::kKey, none, plain(AnswerOllamaManages),
       "Is not supported", no_fields, api::OllamaErrorJson},
      {"POST", "/api/copy", http::Rights::kKey, none, plain(AnswerOllamaManages),
       "Is not supported", no_fields, api::OllamaErrorJson},
      {"POST", "/api/push", http::Rights::kKey, none, plain(AnswerOllamaManages),
       "Is not supported", no_fields, api::OllamaErrorJson},
      {"DELETE", "/api/delete", http::Rights::kKey, none, plain(AnswerOllamaManages),
       "Is not supported", no_fields, api::OllamaErrorJson},

      {"GET", "/v1/responses/{id}/input_items", http::Rights::kKey, none,
       ListsInputItems(context, responses), "The items of a stored response's own input"},
      {"POST", "/v1/responses/{id}/cancel", http::Rights::kKey, none, cancels(responses),
       "End a response in the background"},
      {"GET", "/v1/responses/{id}", http::Rights::kKey, none, shows(responses),
       "A stored response, whole or as a stream"},
      {"DELETE", "/v1/responses/{id}", http::Rights::kKey, none, deletes(responses, "response"),
       "Delete a stored response"},
      {"POST", "/v1/chat/completions/{id}/cancel", http::Rights::kKey, none, cancels(chat),
       "End a chat's answer in the background"},
      {"GET", "/v1/chat/completions/{id}", http::Rights::kKey, none, shows(chat),
       "A chat's stored answer, whole or as a stream"},
      {"DELETE", "/v1/chat/completions/{id}", http::Rights::kKey, none,
       deletes(chat, "chat.completion.deleted"), "Delete a chat's stored answer"},
      {"POST", "/v1/completions/{id}/cancel", http::Rights::kKey, none, cancels(text),
       "End a text in the background"},
      {"GET", "/v1/completions/{id}", http::Rights::kKey, none, shows(text),
       "A stored text, whole or as a stream"},
      {"DELETE", "/v1/completions/{id}", http::Rights::kKey, none,
       deletes(text, "text_completion.deleted"), "Delete a stored text"},
      {"POST",
       "/v1/conversations",
       http::Rights::kKey,
       body,
       talk(CreateConversation),
       "Begin a conversation",
       {"items", "metadata"}},
      {"GET", "/v1/conversations/{id}/items/{item}", http::Rights::kKey, none,
       talk(ShowConversationItem), "One item of a conversation"},
      {"DELETE", "/v1/conversations/{id}/items/{item}", http::Rights::kKey, none,
       talk(DeleteConversationItem), "Take an item out of a conversation"},
      {"GET", "/v1/conversations/{id}/items", http::Rights::kKey, none, talk(ListConversationItems),
       "The items of a conversation"},
      {"POST",
       "/v1/conversations/{id}/items",
       http::Rights::kKey,
       body,
       talk(AddConversationItems),
       "Add items to a conversation",
       {"items"}},
      {"GET", "/v1/conversations/{id}", http::Rights::kKey, none, talk(ShowConversation),
       "A conversation"},
      {"POST",
       "/v1/conversations/{id}",
       http::Rights::kKey,
       body,
       talk(UpdateConversation),
       "Replace a conversation's metadata",
       {"metadata"}},
      {"DELETE", "/v1/conversations/{id}", http::Rights::kKey, none, talk(DeleteConversation),
       "Delete a conversation"},
      DialectRoute(context, "/completion", api::MakeLlamaCppCompletion,
                   "Continue a text, in llama.cpp's own API"),
      {"POST", "/apply-template", http::Rights::kKey, body, AppliesTemplate(context),
       "A chat as the text that the model's chat template makes of it", no_fields,
       api::LlamaCppError},
      {"GET", "/props", http::Rights::kKey, none, plain(AnswerProps),
       "The server's properties, as llama.cpp tells them", no_fields, api::LlamaCppError},
      {"GET", "/slots", http::Rights::kKey, none, plain(AnswerSlots),
       "Running requests in slots, as llama.cpp shows them", no_fields, api::LlamaCppError},
      DialectRoute(context, "/v1/embeddings", api::MakeOpenAiEmbeddings, "Texts as vectors"),
      DialectRoute(context, "/api/embed", api::MakeOllamaEmbed, "Ollama's embeddings"),
      DialectRoute(context, "/api/embeddings", api::MakeOllamaOldEmbeddings,
                   "The same, of one text, as Ollama's older clients ask for it"),
      DialectRoute(context, "/embedding", api::MakeLlamaEmbedding, "llama-server's embeddings"),
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
      {"GET", "/v1/health", http::Rights::kOpen, probe, plain(AnswerHealth),
       "The same, as llama-server's clients ask for it"},
      {"GET", "/metrics", http::Rights::kMetrics, own, plain(AnswerMetrics),
       "Metrics for Prometheus"},
      {"GET", "/admin/events", http::Rights::kView, own, StreamsEvents(context),
       "What the server does, as a stream"},
      {"GET", "/admin/requests", http::Rights::kAdmin, own, plain(AnswerRequests),
       "Unfinished requests"},
      {"POST", "/admin/requests/{id}/cancel", http::Rights::kAdmin, own, plain(AnswerCancel),
       "End one request"},
      {"GET", "/admin/stored", http::Rights::kAdmin, own, Stored(context, ListStored),
       "Stored answers and conversations"},
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
