// Reads one HTTP request from a socket, under bounds of size and time.
#ifndef ROPEWAY_SERVER_REQUEST_READER_H_
#define ROPEWAY_SERVER_REQUEST_READER_H_

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/shared_budget.h"
#include "server/connection_table.h"
#include "server/http_reply.h"
#include "server/server_context.h"
#include "server/socket_stream.h"

namespace ropeway::server {

struct HttpRequest {
  Caller caller;
  std::string method;
  std::string target;
  std::string body;
  base::SharedBudget::Hold body_hold;  // Held as long as `body`.
  Framing framing;
  std::string client;  // The account of the address for which a trusted proxy sent it, else "".
};

// The route in metrics of requests that were rejected before their route was known.
inline constexpr std::string_view kUnreadRoute = "refused";

// The result of reading: a request; a rejection to send before the connection closes; or neither,
// where the client left.
struct ReadOutcome {
  std::optional<HttpRequest> request;
  std::optional<HttpReply> rejection;
  Framing framing;   // Of the rejection.
  RouteMatch match;  // Of the rejection; without an argument.
};

// Reads one request and checks the sender's access by the headers, before the body is read.
// With a key, the connection's place is its tenant's and protected from then on. `proxied`: the
// peer is a trusted proxy. REQUIRES: at least one byte was received, from which the header timeout
// counts; `place` and `context` outlive the coroutine and what it returns.
boost::asio::awaitable<ReadOutcome> ReadHttpRequest(SocketStream* stream, ServerContext* context,
                                                    ConnectionTable::Place* place, bool proxied);

// The reply to a request whose connection has no place.
HttpReply TooManyConnections();

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_REQUEST_READER_H_
