// POST /tokenize and /detokenize, with vLLM's fields.
#ifndef ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_
#define ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "server/http_reply.h"
#include "server/request_reader.h"
#include "server/server_context.h"
#include "server/socket_stream.h"

namespace ropeway::server {

// Answers a request to one of the two paths on the helper threads, in pieces; 429 if its tenant has
// too many there, or its answers take too much memory. Its status is 499 if the client has left,
// for whom nothing more is computed.
boost::asio::awaitable<HttpReply> AnswerTokenizer(ServerContext* context,
                                                  std::shared_ptr<SocketStream> stream,
                                                  HttpRequest request, bool detokenize);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TOKENIZE_HANDLERS_H_
