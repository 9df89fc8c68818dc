// Handlers of Ollama's API that compute nothing: what models there are, and what the server does
// not do.
#ifndef ROPEWAY_SERVER_OLLAMA_HANDLERS_H_
#define ROPEWAY_SERVER_OLLAMA_HANDLERS_H_

#include "http/http_reply.h"
#include "http/request_reader.h"
#include "http/route.h"
#include "server/handlers.h"
#include "server/server_context.h"

namespace ropeway::server {

// GET /api/tags and /api/ps, the served models, all of which are loaded; POST /api/show, one of
// them; GET /api/version; and what makes, copies or deletes models, which no request may.
Answer AnswerOllamaTags, AnswerOllamaPs, AnswerOllamaShow, AnswerOllamaVersion, AnswerOllamaManages;

// What answers a body that should name a model, and does not fit in memory that is always there.
http::HttpReply TooLargeToNameAModel();

// POST /api/pull. `context` must outlive the handler.
http::Route::Handler PullsModel(ServerContext* context);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_OLLAMA_HANDLERS_H_
