// POST /tokenize and /detokenize, with vLLM's fields.
#ifndef ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_
#define ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>

#include "engine/backend.h"
#include "ropeway/status.h"
#include "server/http_reply.h"
#include "server/json_reader.h"
#include "server/request_reader.h"
#include "server/server_context.h"

namespace ropeway {

// {"model"?, "prompt" | "messages", "add_special_tokens"?, "add_generation_prompt"?,
// "return_token_strs"?} -> {"count", "max_model_len", "tokens"[, "token_strs"]} as JSON texts.
// Special tokens written in a text are recognised. The failed Status names the field at fault. May
// take milliseconds per megabyte.
StatusOr<std::string> Tokenize(std::string_view body, const JsonBounds& bounds,
                               const Backend& backend);

// {"model"?, "tokens"} -> {"prompt"}, likewise.
StatusOr<std::string> Detokenize(std::string_view body, const JsonBounds& bounds,
                                 const Backend& backend);

// Answers a request to one of the two paths on a helper thread; 429 where too many wait.
boost::asio::awaitable<HttpReply> AnswerTokenizer(ServerContext* context, HttpRequest request,
                                                  bool detokenize);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_
