// A complete HTTP reply as a value, its bytes, and the errors that replies report.
#ifndef ROPEWAY_HTTP_HTTP_REPLY_H_
#define ROPEWAY_HTTP_HTTP_REPLY_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http_error.h"
#include "ropeway/status.h"

namespace ropeway::http {

// What to tell a client whose request threw: kUnavailable if memory ran out, else kInternal. Logs
// the exception. REQUIRES: called from a catch block.
Status StatusFromException();

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  // Beside those that every reply has.
  // Its route writes the body (Exchange::Send).
  std::optional<HttpError> error;
};

HttpReply ErrorReply(HttpError error);

// Why an answer is not sent: the tenant's answers that were not read yet take too much memory.
Status TooManyAnswers();

// How a reply travels on its connection.
struct Framing {
  bool http_1_0 = false;  // The request's version; HTTP/1.0 has no chunks.
  bool keep_alive = true;
  bool head = false;            // A HEAD request: the body is left out.
  std::string request_id = {};  // The reply's x-request-id; "": it has none.
};

// Status line and headers; the body follows them, unless framing.head.
std::string SerializeHead(const HttpReply& reply, const Framing& framing);

// The head of a streamed reply with status 200: chunked, or ended by the end of the connection
// under HTTP/1.0. `headers` come beside those that every stream has.
std::string StreamHead(std::string_view content_type, const Framing& framing,
                       const HttpHeaders& headers = {});

// Appends `data` to `out` as one chunk of a stream's body, or unframed under HTTP/1.0. Appends
// nothing for empty data, since an empty chunk ends the body.
void AppendChunk(std::string_view data, const Framing& framing, std::string* out);

// Appends the end of a stream's body.
void AppendLastChunk(const Framing& framing, std::string* out);

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_HTTP_REPLY_H_
