// Parses the bytes of one HTTP request, however they are cut, without a socket.
#ifndef ROPEWAY_HTTP_REQUEST_PARSER_H_
#define ROPEWAY_HTTP_REQUEST_PARSER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_options.h"
#include "http/http_reply.h"

namespace ropeway::http {

// What the request line and the headers say. Trailers, which may come with them in one packet, are
// read and dropped: they change nothing here.
struct RequestHead {
  std::string method;
  std::string target;
  // Header fields; "" where the request has none. Several lines of the last two are one list.
  std::string authorization;
  std::string api_key;  // X-Api-Key.
  std::string host;
  std::string origin;
  std::string asked_headers;  // Access-Control-Request-Headers.
  std::string if_none_match;
  std::string fetch_site;  // Sec-Fetch-Site, which browsers write themselves.

  bool preflight = false;  // OPTIONS with Origin and Access-Control-Request-Method.
  // All lines of X-Forwarded-For, or else of Forwarded, as one list; "" without either.
  std::string forwarded_for;
  std::string forwarded;
  bool expects_continue = false;  // The client waits for "100 Continue".
  Framing framing;
};

// One request. Rejected is what two readers could understand differently (RFC 9112), and what
// exceeds the limits.
class RequestParser {
 public:
  // `limits` must outlive the parser.
  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Parses `received`, the connection's bytes that were not consumed yet, and returns how many of
  // them are consumed now. Stops behind the head and behind the request. `full`: no more bytes can
  // be received before some of these are consumed. After a rejection nothing is consumed.
  size_t Parse(std::string_view received, bool full);

  // Nothing more is read of the head.
  bool head_done() const;
  bool done() const;
  // Why the request cannot be served; its connection must end.
  const std::optional<HttpReply>& rejection() const;
  // Once head_done(), what was read of it: all, or what comes before the fault for which it was
  // rejected. Before that, the defaults.
  const RequestHead& head() const;

  // From now on the body is read and checked, but not kept. Call it at most once, when the head is
  // done.
  void DropBody();
  // What the body takes in memory so far.
  size_t body_bytes() const;
  // REQUIRES: done().
  std::string TakeBody();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_REQUEST_PARSER_H_
