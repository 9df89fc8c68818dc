// Reads one HTTP request from a socket, under bounds of size and time.
#ifndef ROPEWAY_SERVER_REQUEST_READER_H_
#define ROPEWAY_SERVER_REQUEST_READER_H_

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_budget.h"
#include "server/caller.h"
#include "server/http_reply.h"
#include "server/server_context.h"
#include "server/socket_stream.h"

namespace ropeway {

struct HttpRequest {
  Caller caller;
  std::string method;
  std::string target;
  std::string body;
  ByteBudget::Hold body_hold;  // For as long as `body` is kept.
  Framing framing;
};

// What came of reading: a request, a refusal to send before the connection closes, or neither: the
// client left.
struct ReadOutcome {
  std::optional<HttpRequest> request;
  std::optional<HttpReply> refusal;
  Framing framing;                     // Of the refusal.
  std::string_view route = "refused";  // Of the refusal, as metrics name it.
};

// Reads one request; whether its sender may make it is decided from the headers, before the body.
// REQUIRES: at least one byte was received, from which the header timeout counts; `context`
// outlives the coroutine and what it returns.
boost::asio::awaitable<ReadOutcome> ReadHttpRequest(SocketStream* stream, ServerContext* context);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_REQUEST_READER_H_
