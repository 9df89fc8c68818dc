#include "server/request_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <utility>

namespace ropeway::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::beast::iequals;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

HttpReply Rejection(int status, std::string message) {
  return ErrorReply({status, std::move(message), "invalid_request_error", "", ""});
}

HttpReply RejectParse(error_code error, const ServerLimits& limits) {
  if (error == http::error::body_limit) {
    return Rejection(
        413, "The body is larger than " + std::to_string(limits.max_body_bytes) + " bytes.");
  }
  if (error == http::error::header_limit) {
    return Rejection(
        431, "The headers are larger than " + std::to_string(limits.max_header_bytes) + " bytes.");
  }
  if (error == http::error::buffer_overflow) {
    return Rejection(400, "A chunk's header or the trailers are too long.");
  }
  return Rejection(400, "This is not valid HTTP: " + error.message() + ".");
}

size_t Lines(const Parser::value_type& message, http::field name) { return message.count(name); }

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// RFC 9112, section 3.2: exactly one Host, which is empty or names a host.
bool GoodHost(const Parser::value_type& message) {
  if (Lines(message, http::field::host) > 1) return false;
  if (Lines(message, http::field::host) == 0) return message.version() < 11;
  const auto host = message[http::field::host];
  return host.find_first_of(" \t,/?#@\\") == std::string_view::npos;
}

// The body's length must be given once and clearly: what two readers understand differently
// smuggles a request past one of them (RFC 9112, section 6.3).
bool GoodFraming(const Parser::value_type& message) {
  const size_t lengths = Lines(message, http::field::content_length);
  const size_t codings = Lines(message, http::field::transfer_encoding);
  if (lengths + codings > 1) return false;
  if (codings > 0) return message.version() >= 11;
  return lengths == 0 || IsDigits(std::string(message[http::field::content_length]));
}

// Why a request is rejected before its body is read; nullopt: it is not.
std::optional<HttpReply> RejectHeaders(const Parser::value_type& message) {
  if (!GoodHost(message)) return Rejection(400, "The request needs exactly one valid Host header.");
  auto encoding = message[http::field::content_encoding];
  if (!encoding.empty() && !iequals(encoding, "identity")) {
    return Rejection(415, "Content-Encoding is not supported.");
  }
  auto transfer = message[http::field::transfer_encoding];
  if (!transfer.empty() && !iequals(transfer, "chunked")) {
    return Rejection(400, "Transfer-Encoding supports only chunked.");
  }
  if (!GoodFraming(message)) {
    return Rejection(400, "Content-Length or Transfer-Encoding is given twice or wrongly.");
  }
  if (Lines(message, http::field::authorization) > 1) {
    return Rejection(400, "Authorization is given twice.");
  }
  auto expect = message[http::field::expect];
  if (!expect.empty() && !iequals(expect, "100-continue")) {
    return Rejection(417, "Expect supports only 100-continue.");
  }
  return std::nullopt;
}

// An upper bound on the body's size.
size_t BodyBytes(const Parser& parser, const ServerLimits& limits) {
  if (parser.chunked()) return limits.max_body_bytes;
  return static_cast<size_t>(parser.content_length().value_or(0));
}

HttpReply TooManyBodies() {
  HttpReply reply = ErrorReply({503, "Too many large requests are on their way.",
                                "service_unavailable_error", "", "unavailable"});
  reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

}  // namespace

// Finds headers that are folded over lines, which the parser would join (RFC 9112, section 5.2
// rejects them).
class FoldFinder {
 public:
  // Whether the next `bytes` of the request show a folded header.
  bool Find(std::string_view bytes) {
    for (const char c : bytes) {
      if (ended_) return false;
      if (line_begins_ && (c == ' ' || c == '\t')) return true;
      line_begins_ = c == '\n';
      if (c == '\n') ended_ = std::exchange(line_empty_, true);
      if (c != '\n' && c != '\r') line_empty_ = false;
    }
    return false;
  }

 private:
  bool line_begins_ = false;
  bool line_empty_ = true;
  bool ended_ = false;  // The headers ended.
};

// One request being read.
class RequestReader {
 public:
  RequestReader(SocketStream* stream, ServerContext* context)
      : stream_(stream), context_(context), limits_(context->limits()) {
    outcome_.match.name = kUnreadRoute;
    parser_.eager(true);
    parser_.header_limit(static_cast<uint32_t>(limits_.max_header_bytes));
    parser_.body_limit(limits_.max_body_bytes);
  }

  asio::awaitable<ReadOutcome> Read();

 private:
  // Parses what was received; returns what is wrong with it, if anything.
  std::optional<HttpReply> Feed();
  // Decides, by the headers, whether the body is to be read.
  std::optional<HttpReply> CheckHeaders();
  HttpRequest Release();

  SocketStream* const stream_;
  ServerContext* const context_;
  const ServerLimits& limits_;
  Parser parser_;
  FoldFinder folds_;
  ReadOutcome outcome_;
  Access::Verdict verdict_;  // Without a rejection.
  base::ByteBudget::Hold hold_;
};

std::optional<HttpReply> RequestReader::Feed() {
  if (stream_->received().empty()) return std::nullopt;
  error_code error;
  const bool in_headers = !parser_.is_header_done();
  const std::string_view received = stream_->received();
  const size_t used = parser_.put(asio::buffer(received.data(), received.size()), error);
  const bool folded = in_headers && folds_.Find(received.substr(0, used));
  stream_->Consume(used);
  if (folded) return Rejection(400, "A header is folded over lines.");
  // The parser waits for the end of something that does not fit, and reading has paused.
  if (error == http::error::need_more && stream_->full()) error = http::error::buffer_overflow;
  if (!error || error == http::error::need_more) return std::nullopt;
  return RejectParse(error, limits_);
}

std::optional<HttpReply> RequestReader::CheckHeaders() {
  const Parser::value_type& message = parser_.get();
  outcome_.framing.http_1_0 = message.version() < 11;
  outcome_.framing.head = message.method() == http::verb::head;
  std::optional<HttpReply> rejection = RejectHeaders(message);
  if (rejection) return rejection;
  RouteMatch match = context_->router.Match(message.method_string(), message.target());
  match.argument = {};  // It points into the message.
  Access::Verdict verdict =
      context_->access.Check(match.route, message[http::field::authorization]);
  if (verdict.rejection) {
    outcome_.match = match;
    return std::move(verdict.rejection);
  }
  outcome_.match.make_format = match.make_format;
  verdict_ = std::move(verdict);
  // Small bodies are not counted: a few clients that send large ones slowly cannot block them.
  const size_t bytes = BodyBytes(parser_, limits_);
  if (bytes > limits_.max_inline_body_bytes && !context_->bodies.Take(bytes, &hold_)) {
    return TooManyBodies();
  }
  return std::nullopt;
}

HttpRequest RequestReader::Release() {
  const Parser::value_type& message = parser_.get();
  HttpRequest request;
  request.caller = std::move(verdict_.caller);
  request.framing = outcome_.framing;
  request.framing.keep_alive = message.keep_alive();
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  request.body = std::move(parser_.get().body());
  request.body_hold = std::move(hold_);
  return request;
}

asio::awaitable<ReadOutcome> RequestReader::Read() {
  outcome_.framing.keep_alive = false;
  auto deadline = std::chrono::steady_clock::now() + limits_.header_timeout;
  bool headers_seen = false;
  while (true) {
    outcome_.rejection = Feed();
    if (!outcome_.rejection && parser_.is_header_done() && !headers_seen) {
      headers_seen = true;
      deadline = std::chrono::steady_clock::now() + limits_.body_timeout;
      outcome_.rejection = CheckHeaders();
      const bool asks = !parser_.is_done() && !parser_.get()[http::field::expect].empty();
      if (!outcome_.rejection && asks && parser_.get().version() >= 11) {
        std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        const bool sent = co_await stream_->Write(std::move(go_on));
        if (!sent) break;
      }
    }
    if (outcome_.rejection) break;
    if (parser_.is_done()) {
      outcome_.request = Release();
      break;
    }
    if (stream_->gone()) break;
    const bool in_time = co_await stream_->Wait(deadline);
    if (!in_time) {
      outcome_.rejection = Rejection(408, "The request did not arrive in time.");
      break;
    }
  }
  co_return std::move(outcome_);
}

asio::awaitable<ReadOutcome> ReadHttpRequest(SocketStream* stream, ServerContext* context) {
  RequestReader reader(stream, context);
  ReadOutcome outcome = co_await reader.Read();
  co_return outcome;
}

}  // namespace ropeway::server
