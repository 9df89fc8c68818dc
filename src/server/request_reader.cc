#include "server/request_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <utility>

namespace ropeway {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::beast::iequals;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

HttpReply Refusal(int status, std::string message) {
  return ErrorReply({status, std::move(message), "invalid_request_error", "", ""});
}

HttpReply RefuseParse(error_code error, const ServerLimits& limits) {
  if (error == http::error::body_limit) {
    return Refusal(413,
                   "The body is larger than " + std::to_string(limits.max_body_bytes) + " bytes.");
  }
  if (error == http::error::header_limit) {
    return Refusal(
        431, "The headers are larger than " + std::to_string(limits.max_header_bytes) + " bytes.");
  }
  if (error == http::error::buffer_overflow) {
    return Refusal(400, "A chunk's header or the trailers are too long.");
  }
  return Refusal(400, "This is not valid HTTP: " + error.message() + ".");
}

// Why a request whose headers are here is refused before its body is read.
std::optional<HttpReply> RefuseHeaders(const Parser::value_type& message) {
  auto encoding = message[http::field::content_encoding];
  if (!encoding.empty() && !iequals(encoding, "identity")) {
    return Refusal(415, "Content-Encoding is not supported.");
  }
  auto transfer = message[http::field::transfer_encoding];
  if (!transfer.empty() && !iequals(transfer, "chunked")) {
    return Refusal(400, "Transfer-Encoding is not supported but as chunked.");
  }
  auto expect = message[http::field::expect];
  if (!expect.empty() && !iequals(expect, "100-continue")) {
    return Refusal(417, "Expect is not supported but as 100-continue.");
  }
  return std::nullopt;
}

// The most bytes that the body may have.
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

HttpRequest Release(Parser* parser) {
  HttpRequest request;
  request.framing.http_1_0 = parser->get().version() < 11;
  request.framing.keep_alive = parser->get().keep_alive();
  request.method = std::string(parser->get().method_string());
  request.target = std::string(parser->get().target());
  request.framing.head = request.method == "HEAD";
  request.body = std::move(parser->get().body());
  return request;
}

// Parses what is there. The error is need_more while the request is incomplete.
error_code Feed(SocketStream* stream, Parser* parser) {
  error_code error;
  const std::string_view received = stream->received();
  const size_t used = parser->put(asio::buffer(received.data(), received.size()), error);
  stream->Consume(used);
  // The parser waits for the end of something that does not fit, and reading has paused.
  if (error == http::error::need_more && stream->full()) error = http::error::buffer_overflow;
  return error;
}

}  // namespace

asio::awaitable<ReadOutcome> ReadHttpRequest(SocketStream* stream, const ServerLimits& limits,
                                             ByteBudget* bodies) {
  ReadOutcome outcome;
  ByteBudget::Hold hold;
  Parser parser;
  parser.eager(true);
  parser.header_limit(static_cast<uint32_t>(limits.max_header_bytes));
  parser.body_limit(limits.max_body_bytes);
  auto deadline = std::chrono::steady_clock::now() + limits.header_timeout;
  bool headers_seen = false;
  while (true) {
    error_code error;
    if (!stream->received().empty()) error = Feed(stream, &parser);
    if (error == http::error::need_more) error = {};
    if (parser.is_header_done()) outcome.http_1_0 = parser.get().version() < 11;
    if (error) {
      outcome.refusal = RefuseParse(error, limits);
      co_return outcome;
    }
    if (parser.is_header_done() && !headers_seen) {
      headers_seen = true;
      deadline = std::chrono::steady_clock::now() + limits.body_timeout;
      outcome.refusal = RefuseHeaders(parser.get());
      const size_t size = BodyBytes(parser, limits);
      if (!outcome.refusal && !bodies->Take(size, &hold)) outcome.refusal = TooManyBodies();
      if (outcome.refusal) co_return outcome;
      if (!parser.is_done() && !parser.get()[http::field::expect].empty()) {
        std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        const bool sent = co_await stream->Write(std::move(go_on));
        if (!sent) co_return outcome;
      }
    }
    if (parser.is_done()) {
      outcome.request = Release(&parser);
      outcome.request->body_hold = std::move(hold);
      co_return outcome;
    }
    if (stream->gone()) co_return outcome;
    const bool in_time = co_await stream->Wait(deadline);
    if (!in_time) {
      outcome.refusal = Refusal(408, "The request did not arrive in time.");
      co_return outcome;
    }
  }
}

}  // namespace ropeway
