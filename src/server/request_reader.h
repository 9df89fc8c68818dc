// Reads one HTTP request from a socket, under bounds of size and time.
#ifndef ROPEWAY_SERVER_REQUEST_READER_H_
#define ROPEWAY_SERVER_REQUEST_READER_H_

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "base/byte_budget.h"
#include "server/http_reply.h"
#include "server/server_options.h"
#include "server/socket_stream.h"

namespace ropeway {

struct HttpRequest {
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
  bool http_1_0 = false;  // How to frame the refusal.
};

// Reads one request. REQUIRES: at least one byte was received, from which the header timeout
// counts; `limits` and `bodies` outlive the coroutine, and `bodies` what it returns.
boost::asio::awaitable<ReadOutcome> ReadHttpRequest(SocketStream* stream,
                                                    const ServerLimits& limits, ByteBudget* bodies);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_REQUEST_READER_H_
