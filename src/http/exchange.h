// One request of a connection and its answer.
#ifndef ROPEWAY_HTTP_EXCHANGE_H_
#define ROPEWAY_HTTP_EXCHANGE_H_

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "http/access_record.h"
#include "http/http_context.h"
#include "http/io_turns.h"
#include "http/request_reader.h"
#include "http/route.h"
#include "http/socket_stream.h"

namespace ropeway::http {

// What a route's handler gets. The handler ends with Send, or with an answer of its own on
// `stream`.
//
// Thread rule: the connection's strand, except for work that a handler moves elsewhere.
class Exchange {
 public:
  // `turns`: of the stream's event loop. `context` and `turns` must outlive the exchange.
  Exchange(HttpContext* context, std::shared_ptr<SocketStream> stream, IoTurns* turns,
           HttpRequest request)
      : stream(std::move(stream)), turns(turns), request(std::move(request)), context_(context) {}

  const Route& route() const { return *request.match.route; }

  // Sends a whole reply, an error in the shape of the route. Its bytes are charged to the caller's
  // tenant.
  boost::asio::awaitable<Sent> Send(HttpReply reply);
  // An error was sent.
  void Note(const HttpError& error);

  // The head of an answer that a handler streams; see http::StreamHead.
  std::string StreamHead(std::string_view content_type, HttpHeaders own) const;

  const std::shared_ptr<SocketStream> stream;
  IoTurns* const turns;
  HttpRequest request;  // A handler may change it.
  AccessRecord record;  // What the handler knows of the outcome.
  HttpHeaders headers;  // More headers for its answer, whatever that is.

 private:
  // Lets the page that asked read the answer, with all headers that are more than HTTP's.
  void AddCrossOrigin(HttpHeaders* all) const;

  HttpContext* const context_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_EXCHANGE_H_
