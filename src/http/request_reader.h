// Reads one HTTP request from a socket, under bounds of size and time.
#ifndef ROPEWAY_HTTP_REQUEST_READER_H_
#define ROPEWAY_HTTP_REQUEST_READER_H_

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "base/shared_budget.h"
#include "http/caller.h"
#include "http/connection_table.h"
#include "http/http_context.h"
#include "http/http_reply.h"
#include "http/route.h"
#include "http/socket_stream.h"

namespace ropeway::http {

struct HttpRequest {
  std::string id;  // No other request has it. Its client may have a name of its own for it
                   // (Framing::request_id).
  std::string method;
  RouteMatch match;
  Caller caller;
  // What a page of another origin is told; "": it may not read the answer.
  std::string allow_origin;
  std::string allow_headers;  // What the preflight of such a page is told.
  bool preflight = false;     // It is such a preflight.
  std::string if_none_match;  // The header; "": none.
  std::string body;
  base::SharedBudget::Hold body_hold;  // Held as long as `body`.
  Framing framing;
  // The address for which a trusted proxy sent it, and that address's account; else "".
  std::string forwarded_for;
  std::string client;
};

// The result of reading.
struct ReadOutcome {
  HttpRequest request;
  bool whole = false;  // `request` is here to its end.
  // To be sent before the connection closes; then `request` has what was read of it. Neither: the
  // client left.
  std::optional<HttpReply> rejection;
};

// Reads one request and checks the sender's access by the headers, before the body is read.
// With a key, the connection's place is its tenant's and protected from then on. `proxied`: the
// peer is a trusted proxy. REQUIRES: at least one byte was received, from which the header timeout
// counts; `place` and `context` outlive the coroutine and what it returns.
boost::asio::awaitable<ReadOutcome> ReadHttpRequest(SocketStream* stream, HttpContext* context,
                                                    ConnectionTable::Place* place, bool proxied);

// The reply to a request whose connection has no place.
HttpReply TooManyConnections();

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_REQUEST_READER_H_
