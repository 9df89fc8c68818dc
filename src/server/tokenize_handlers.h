// POST /tokenize and /detokenize, with vLLM's fields.
#ifndef ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_
#define ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_

#include "http/route.h"
#include "server/server_context.h"

namespace ropeway::server {

// The handler of one of the two paths. It answers on the helper threads, in pieces; 429 if the
// tenant has too many there, or its answers take too much memory. Nothing more is computed for a
// client that has left. `context` must outlive it.
http::Route::Handler Tokenizes(ServerContext* context);
http::Route::Handler Detokenizes(ServerContext* context);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_
