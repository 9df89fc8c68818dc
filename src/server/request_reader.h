// Reads one HTTP request from a socket, under bounds of size and time.
#ifndef ROPEWAY_SERVER_REQUEST_READER_H_
#define ROPEWAY_SERVER_REQUEST_READER_H_

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "server/http_reply.h"
#include "server/server_options.h"
#include "server/socket_stream.h"

namespace ropeway {

struct HttpRequest {
  std::string method;
  std::string target;
  std::string body;
  Framing framing;
};

// What came of reading: a request, a refusal to send before the connection closes, or neither: the
// client left.
struct ReadOutcome {
  std::optional<HttpRequest> request;
  std::optional<HttpReply> refusal;
  bool http_1_0 = false;  // How to frame the refusal.
};

// Reads one request. REQUIRES: at least one byte was received, from which the header timeout
// counts.
boost::asio::awaitable<ReadOutcome> ReadHttpRequest(SocketStream* stream, ServerLimits limits);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_REQUEST_READER_H_
