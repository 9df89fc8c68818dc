#include "http/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <limits>
#include <utility>

#include "http/access_record.h"

namespace ropeway::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast::http;
using boost::beast::iequals;
using boost::system::error_code;

// A body that takes memory for the bytes that came: beast::string_body would reserve as much as the
// client announces.
struct ReceivedBody {
  struct value_type {
    std::string bytes;
    bool keep = true;
  };

  static std::uint64_t size(const value_type& body) { return body.bytes.size(); }

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(beast::header<is_request, Fields>& /*head*/, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>& length, error_code& error) {
      if (length) announced_ = static_cast<size_t>(*length);
      error = {};
    }

    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& error) {
      std::size_t bytes = 0;
      for (const asio::const_buffer part : boost::beast::buffers_range_ref(buffers)) {
        if (body_.keep) Append(static_cast<const char*>(part.data()), part.size());
        bytes += part.size();
      }
      error = {};
      return bytes;
    }

    void finish(error_code& error) { error = {}; }

   private:
    // Doubles the capacity, as std::string does, but never beyond what was announced.
    void Append(const char* data, size_t size) {
      std::string& text = body_.bytes;
      const size_t needed = text.size() + size;
      if (needed > text.capacity()) {
        std::string larger;
        larger.reserve(std::max(needed, std::min(2 * text.capacity(), announced_)));
        larger.append(text);
        text = std::move(larger);
      }
      text.append(data, size);
    }

    value_type& body_;
    size_t announced_ = std::numeric_limits<size_t>::max();  // Bytes.
  };
};

using Parser = beast::request_parser<ReceivedBody>;
using Message = Parser::value_type;

HttpReply ParserRejection(int status, std::string message, std::string code = "") {
  return ErrorReply({status, std::move(message), "invalid_request_error", "", std::move(code)});
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether the request's line ends in a version that is one, HTTP/ DIGIT . DIGIT, not below 1, and
// not supported.
bool NamesAnotherHttpVersion(std::string_view received) {
  constexpr std::string_view kName = "HTTP/";
  received.remove_prefix(std::min(received.find_first_not_of("\r\n"), received.size()));
  const std::string_view line = received.substr(0, received.find_first_of("\r\n"));
  const std::string_view version = line.substr(line.rfind(' ') + 1);  // npos + 1 is 0.
  if (version.size() != kName.size() + 3 || !version.starts_with(kName)) return false;
  const std::string_view number = version.substr(kName.size());
  if (number == "1.0" || number == "1.1") return false;  // The line is damaged elsewhere.
  return IsDigit(number[0]) && number[0] != '0' && number[1] == '.' && IsDigit(number[2]);
}

// `received`: from the request's line on where that is at fault.
HttpReply RejectParse(error_code error, std::string_view received, const HttpLimits& limits) {
  if (error == beast::error::bad_version && NamesAnotherHttpVersion(received)) {
    return ParserRejection(505, "Only HTTP/1.1 and HTTP/1.0 are supported.");
  }
  if (error == beast::error::body_limit) {
    return ParserRejection(413,
                           fmt::format("The body is larger than {} bytes.", limits.max_body_bytes),
                           "body_too_large");
  }
  if (error == beast::error::header_limit) {
    return ParserRejection(
        431, fmt::format("The headers are larger than {} bytes.", limits.max_header_bytes),
        "headers_too_large");
  }
  if (error == beast::error::buffer_overflow) {
    return ParserRejection(400, "A chunk's header or the trailers are too long.");
  }
  return ParserRejection(400, "This is not valid HTTP: " + error.message() + ".");
}

std::string_view ValueOf(const Message& message, beast::field name) {
  const auto value = message[name];
  return {value.data(), value.size()};
}

// All lines of the header, as the list that they are (RFC 9110, section 5.3).
std::string JoinedValues(const Message& message, std::string_view name) {
  std::string all;
  const auto lines = message.equal_range(boost::beast::string_view(name.data(), name.size()));
  for (auto line = lines.first; line != lines.second; ++line) {
    const auto value = line->value();
    if (!all.empty()) all += ", ";
    all.append(value.data(), value.size());
  }
  return all;
}

size_t Lines(const Message& message, beast::field name) { return message.count(name); }

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// RFC 9112, section 3.2: exactly one Host, which is empty or names a host.
bool GoodHost(const Message& message) {
  if (Lines(message, beast::field::host) > 1) return false;
  if (Lines(message, beast::field::host) == 0) return message.version() < 11;
  return ValueOf(message, beast::field::host).find_first_of(" \t,/?#@\\") == std::string_view::npos;
}

// The body's length must be given once and clearly: what two readers understand differently
// smuggles a request past one of them (RFC 9112, section 6.3).
bool GoodFraming(const Message& message) {
  const size_t lengths = Lines(message, beast::field::content_length);
  const size_t codings = Lines(message, beast::field::transfer_encoding);
  if (lengths + codings > 1) return false;
  if (codings > 0) return message.version() >= 11;
  return lengths == 0 || IsDigits(ValueOf(message, beast::field::content_length));
}

// Why a request is rejected before its body is read; nullopt: it is not.
std::optional<HttpReply> RejectHeaders(const Message& message) {
  if (!GoodHost(message)) {
    return ParserRejection(400, "The request needs exactly one valid Host header.");
  }
  const auto encoding = message[beast::field::content_encoding];
  if (!encoding.empty() && !iequals(encoding, "identity")) {
    return ParserRejection(415, "Content-Encoding is not supported.");
  }
  const auto transfer = message[beast::field::transfer_encoding];
  if (!transfer.empty() && !iequals(transfer, "chunked")) {
    return ParserRejection(400, "Transfer-Encoding supports only chunked.");
  }
  if (!GoodFraming(message)) {
    return ParserRejection(400, "Content-Length or Transfer-Encoding is invalid or given twice.");
  }
  for (const char* secret : {"Authorization", "X-Api-Key"}) {
    if (message.count(secret) > 1)
      return ParserRejection(400, fmt::format("{} is given twice.", secret));
  }
  const auto expect = message[beast::field::expect];
  if (!expect.empty() && !iequals(expect, "100-continue")) {
    return ParserRejection(417, "Expect supports only 100-continue.");
  }
  return std::nullopt;
}

RequestHead HeadOf(const Message& message) {
  const auto method = message.method_string();
  const auto target = message.target();
  RequestHead head;
  head.method.assign(method.data(), method.size());
  head.target.assign(target.data(), target.size());
  head.authorization = std::string(ValueOf(message, beast::field::authorization));
  head.api_key = JoinedValues(message, "X-Api-Key");
  head.host = std::string(ValueOf(message, beast::field::host));
  head.origin = JoinedValues(message, "Origin");
  head.asked_headers = JoinedValues(message, "Access-Control-Request-Headers");
  head.if_none_match = JoinedValues(message, "If-None-Match");
  head.fetch_site = JoinedValues(message, "Sec-Fetch-Site");
  head.preflight = head.method == "OPTIONS" && !head.origin.empty() &&
                   message.count("Access-Control-Request-Method") > 0;
  head.forwarded_for = JoinedValues(message, "X-Forwarded-For");
  head.forwarded = JoinedValues(message, "Forwarded");
  head.expects_continue =
      message.version() >= 11 && !ValueOf(message, beast::field::expect).empty();
  head.framing.http_1_0 = message.version() < 11;
  head.framing.head = message.method() == beast::verb::head;
  head.framing.keep_alive = message.keep_alive();
  head.framing.request_id = UsableRequestId(JoinedValues(message, "X-Request-Id"));
  return head;
}

// Whether `received`, of a chunked body, may be the begin of its shortest end, "0\r\n\r\n". Beast's
// parser must not be asked about a part of it: it asserts that it has all of these bytes once it
// has seen the first three.
bool BeginsLastChunk(std::string_view received) {
  return received.size() < 5 && received.front() == '0';
}

// Finds headers that are folded over lines, which the parser would join (RFC 9112, section 5.2
// rejects them).
class FoldFinder {
 public:
  // Whether the next `bytes` of the head show a folded header.
  bool Find(std::string_view bytes) {
    for (const char c : bytes) {
      if (line_begins_ && (c == ' ' || c == '\t')) return true;
      line_begins_ = c == '\n';
    }
    return false;
  }

 private:
  bool line_begins_ = false;
};

}  // namespace

class RequestParser::Impl {
 public:
  explicit Impl(const HttpLimits& its_limits) : limits(its_limits) {
    parser.header_limit(static_cast<uint32_t>(limits.max_header_bytes));
    parser.body_limit(limits.max_body_bytes);
  }

  size_t Parse(std::string_view received, bool full) {
    if (received.empty() || rejection || parser.is_done()) return 0;
    const bool in_head = !parser.is_header_done();
    if (!in_head && parser.chunked() && BeginsLastChunk(received) && !full) return 0;
    error_code error;
    const size_t used = parser.put(asio::buffer(received.data(), received.size()), error);
    // The parser waits for the end of something that does not fit.
    if (error == beast::error::need_more && full) error = beast::error::buffer_overflow;
    if (error == beast::error::need_more) error = {};
    const bool folded = in_head && folds.Find(received.substr(0, used));
    if (in_head) CheckHeadSize(used, received.size(), &error);
    if (folded) {
      rejection = ParserRejection(400, "A header is folded over several lines.");
    } else if (error) {
      rejection = RejectParse(error, received, limits);
    }
    if (in_head && (rejection || parser.is_header_done())) {
      // Now, as trailers are added to the message.
      head = HeadOf(parser.get());
      head_done = true;
      if (!rejection) rejection = RejectHeaders(parser.get());
      parser.eager(true);
    }
    return rejection ? 0 : used;
  }

  const HttpLimits& limits;
  Parser parser;  // Stops behind the head until it is told to be eager.
  FoldFinder folds;
  RequestHead head;
  bool head_done = false;
  std::optional<HttpReply> rejection;
  size_t head_bytes = 0;  // Consumed.

 private:
  // The parser's own limit counts what it has not taken in yet, and so never a head that comes line
  // by line.
  void CheckHeadSize(size_t used, size_t received, error_code* error) {
    head_bytes += used;
    const size_t waiting = parser.is_header_done() ? 0 : received - used;
    const bool may_grow = !*error || *error == beast::error::buffer_overflow;
    if (may_grow && head_bytes + waiting > limits.max_header_bytes) {
      *error = beast::error::header_limit;
    }
  }
};

RequestParser::RequestParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}

RequestParser::~RequestParser() = default;

size_t RequestParser::Parse(std::string_view received, bool full) {
  return impl_->Parse(received, full);
}

bool RequestParser::head_done() const { return impl_->head_done; }

bool RequestParser::done() const { return !impl_->rejection && impl_->parser.is_done(); }

const std::optional<HttpReply>& RequestParser::rejection() const { return impl_->rejection; }

const RequestHead& RequestParser::head() const { return impl_->head; }

void RequestParser::DropBody() { impl_->parser.get().body().keep = false; }

size_t RequestParser::body_bytes() const { return impl_->parser.get().body().bytes.capacity(); }

std::string RequestParser::TakeBody() {
  return std::exchange(impl_->parser.get().body().bytes, std::string());
}

}  // namespace ropeway::http
