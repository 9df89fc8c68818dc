// The handlers of the server's routes: what answers at once (models, the queue, health, metrics,
// version, the admin paths), what tokenizes, and what all of them share.
#ifndef ROPEWAY_SERVER_HANDLERS_H_
#define ROPEWAY_SERVER_HANDLERS_H_

#include <string>
#include <vector>

#include "api/api_format.h"
#include "http/http_metrics.h"
#include "http/http_reply.h"
#include "http/request_reader.h"
#include "http/route.h"
#include "server/key_limits.h"
#include "server/server_context.h"

namespace ropeway::server {

// Each answers one route (routes.cc) and never blocks for long. REQUIRES: the caller may use it.
using Answer = http::HttpReply(const http::HttpRequest& request, ServerContext* context);
Answer AnswerModels, AnswerModel, AnswerQueue, AnswerLivez, AnswerReadyz, AnswerHealth,
    AnswerMetrics, AnswerVersion, AnswerOpenApi, AnswerRequests, AnswerCancel, AnswerDrain,
    AnswerUndrain, AnswerTokenizerInfo, AnswerNothing, AnswerDashboard, AnswerChat, AnswerWebFile,
    AnswerProps, AnswerSlots;

// Why no new requests are taken. REQUIRES: not kServing.
const char* NotAccepting(http::HttpContext::State state);

// The handler that answers so: in a turn of the I/O thread, a probe without one. `context` must
// outlive it.
http::Route::Handler Plain(ServerContext* context, Answer* answer);

// The model of this name; "" and "default" are the first one's. kNotFound with the names of all.
StatusOr<service::ModelInfo> FindModel(const std::string& name, const ServerContext& context);

// The model for a request of `caller` that names it so. Besides what FindModel finds, this is a
// model that the backend may have but does not list and, with ServerOptions::any_model, the only
// model.
StatusOr<service::ModelInfo> ModelToAsk(const std::string& name, const http::Caller& caller,
                                        const ServerContext& context);

// POST /tokenize and /detokenize, with vLLM's fields. They are answered on the helper threads, in
// pieces; 429 if the tenant has too many there, or its answers take too much memory. Nothing more
// is computed for a client that has left. `context` must outlive the handler.
http::Route::Handler Tokenizes(ServerContext* context);
http::Route::Handler Detokenizes(ServerContext* context);
// POST /apply-template, llama.cpp's, in the same way.
http::Route::Handler AppliesTemplate(ServerContext* context);
// Counts the tokens of the chat that a dialect reads: its whole answer has them as the usage of one
// choice. Answered in the same way.
http::Route::Handler CountsTokens(ServerContext* context, api::ApiFormatMaker make_format);

// GET /admin/events. `context` must outlive the handler.
http::Route::Handler StreamsEvents(ServerContext* context);

// Streams a stored answer from its beginning, or from where its format was told to, to its end.
// `context` must outlive the coroutine.
boost::asio::awaitable<http::Sent> SendWatched(std::shared_ptr<http::Exchange> exchange,
                                               ServerContext* context,
                                               StoredAnswers::Watched watched);

// The metrics of all tenants, or of `tenant` alone if that is not "", in the Prometheus text
// format.
std::string TenantText(const http::HttpMetrics& metrics, const std::vector<KeyUsage>& usage,
                       const std::string& tenant);

// The server's description of itself for programs (OpenAPI 3.1): every row of `routes` with the
// fields of its body, which have types and ranges where they are rows of core/parameters.h.
std::string OpenApiJson(const std::vector<http::Route>& routes);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_HANDLERS_H_
