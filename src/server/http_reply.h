// A complete HTTP reply as a value, and its bytes.
#ifndef ROPEWAY_SERVER_HTTP_REPLY_H_
#define ROPEWAY_SERVER_HTTP_REPLY_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/errors.h"

namespace ropeway {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  // Beside those that every reply has.
};

// How the reply travels on this connection.
struct Framing {
  bool http_1_0 = false;  // The request's version: no chunks then.
  bool keep_alive = true;
  bool head = false;  // A HEAD request: the body is left out.
};

HttpReply ErrorReply(const ApiError& error);

// Status line, headers and body.
std::string Serialize(const HttpReply& reply, const Framing& framing);

// The head of a server-sent event stream: chunked, or ended by the connection's end under HTTP/1.0.
// `headers`: beside those that every stream has.
std::string EventStreamHead(const Framing& framing, const HttpHeaders& headers = {});

// Appends `data` to `out` as one chunk of a stream's body, or as it is under HTTP/1.0. An empty
// chunk would end the body, so nothing is appended for empty data.
void AppendChunk(std::string_view data, const Framing& framing, std::string* out);

// Appends the end of a stream's body.
void AppendLastChunk(const Framing& framing, std::string* out);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_HTTP_REPLY_H_
