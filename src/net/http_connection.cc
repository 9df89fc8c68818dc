#include "net/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http.hpp>
#include <boost/none.hpp>
#include <boost/optional.hpp>
#include <boost/system/system_error.hpp>

namespace ropeway::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using SteadyClock = std::chrono::steady_clock;

constexpr uint32_t kMaxHeadBytes = 64 << 10;
constexpr size_t kReadBytes = 16 << 10;
// The length of the shortest end of a chunked body, "0\r\n\r\n".
constexpr size_t kLeastChunkBytes = 5;
constexpr int kMaxInterimReplies = 16;
// Longer timeouts than this are none at all, and cannot overflow.
constexpr base::Duration kLongestTimeout = std::chrono::hours(24 * 365);

// A buffer to read into that all connections of a thread share: taken while bytes are read and
// passed on, never while waiting. One taken inside of another is a second buffer.
class ReadBuffer {
 public:
  ReadBuffer() : bytes_(std::move(spare_)) {
    if (bytes_ == nullptr) bytes_ = std::make_unique_for_overwrite<char[]>(kReadBytes);
  }
  ~ReadBuffer() { spare_ = std::move(bytes_); }
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;

  char* data() { return bytes_.get(); }

 private:
  static thread_local std::unique_ptr<char[]> spare_;

  std::unique_ptr<char[]> bytes_;
};

thread_local std::unique_ptr<char[]> ReadBuffer::spare_;

bool IsHttpError(const error_code& error) {
  return error.category() == make_error_code(http::error::end_of_stream).category();
}

bool IsEarlyEnd(const error_code& error) {
  return error == http::error::end_of_stream || error == http::error::partial_message ||
         error == asio::error::eof || error == asio::ssl::error::stream_truncated;
}

// A field's value that cannot end the field.
std::string OneLine(std::string value) {
  const auto breaks = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  std::replace_if(value.begin(), value.end(), breaks, ' ');
  return value;
}

using WireRequest = http::request<http::span_body<const char>>;

WireRequest MakeRequest(const HttpPeer& peer, const HttpAsk& ask) {
  WireRequest request(http::verb::get, fmt::format("{}{}", peer.url.path, ask.path), 11);
  request.method_string({ask.method.data(), ask.method.size()});
  request.set(http::field::host, peer.url.Authority());
  request.set(http::field::user_agent, "ropeway");
  request.set(http::field::connection, ask.keep ? "keep-alive" : "close");
  if (!peer.authorization.empty()) {
    request.set(http::field::authorization, OneLine(peer.authorization));
  }
  if (!ask.body.empty()) request.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : ask.fields) request.set(name, OneLine(value));
  request.body() = {ask.body.data(), ask.body.size()};
  request.prepare_payload();
  return request;
}

}  // namespace

struct HttpConnection::Tls {
  asio::ssl::stream<tcp::socket&> stream;
};

// Takes a reply apart as it comes. Keeps nothing of it but what has no meaning yet without more.
class HttpConnection::ReplyParser {
 public:
  // `broken` is HttpConnection's: nothing is passed on once it is set.
  ReplyParser(const HttpAsk& ask, const OnHead& on_head, const OnBody& on_body,
              const char* const& broken)
      : on_head_(on_head),
        on_body_(on_body),
        broken_(broken),
        no_body_(ask.method == "HEAD"),
        max_body_bytes_(ask.max_body_bytes) {
    message_.emplace(this);
  }

  // Takes the next bytes, cut anywhere. An error is final.
  error_code Take(std::string_view bytes);
  // The server has closed the connection: an error unless that is how its reply ends.
  error_code TakeEnd();

  bool done() const { return message_->is_done(); }
  bool got_head() const { return got_head_; }
  bool stopped() const { return stopped_; }  // The body's function wants no more.
  // REQUIRES: done().
  bool keeps_open() const { return message_->keep_alive() && pending_.empty(); }

 private:
  // Beast's parser of one reply, final or interim.
  class Message final : public http::basic_parser<false> {
   public:
    explicit Message(ReplyParser* reply) : reply_(*reply) {
      body_limit(boost::none);
      header_limit(kMaxHeadBytes);
      skip(reply_.no_body_);
    }

    bool waits_for_chunk() const { return is_header_done() && chunked() && chunk_left_ == 0; }

   private:
    using View = boost::beast::string_view;

    void on_request_impl(http::verb, View, View, int, error_code&) override {}
    void on_response_impl(int code, View, int, error_code&) override { status_ = code; }
    void on_field_impl(http::field, View name, View value, error_code& error) override {
      if (is_header_done()) return;  // Behind a chunked body.
      reply_.TakeField({name.data(), name.size()}, {value.data(), value.size()}, &error);
    }
    void on_header_impl(error_code& error) override { reply_.TakeHead(status_, &error); }
    void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
    size_t on_body_impl(View body, error_code& error) override {
      reply_.TakeBody({body.data(), body.size()}, &error);
      return body.size();
    }
    void on_chunk_header_impl(uint64_t size, View, error_code&) override { chunk_left_ = size; }
    size_t on_chunk_body_impl(uint64_t, View body, error_code& error) override {
      chunk_left_ -= body.size();
      reply_.TakeBody({body.data(), body.size()}, &error);
      return body.size();
    }
    void on_finish_impl(error_code&) override {}

    ReplyParser& reply_;
    int status_ = 0;
    uint64_t chunk_left_ = 0;  // Bytes of the current chunk that have not come.
  };

  void TakeField(std::string_view name, std::string_view value, error_code* error);
  void TakeHead(int status, error_code* error);
  void TakeBody(std::string_view bytes, error_code* error);
  std::string_view Field(std::string_view name) const;

  const OnHead& on_head_;
  const OnBody& on_body_;
  const char* const& broken_;
  const bool no_body_;
  const size_t max_body_bytes_;
  std::optional<Message> message_;
  std::string pending_;  // Bytes that the parser wants to see again, with more behind them.
  HttpFields fields_;    // Until the head is passed on.
  size_t head_bytes_ = 0;
  uint64_t body_bytes_ = 0;
  int interim_replies_ = 0;
  bool interim_ = false;  // The current reply is one.
  bool got_head_ = false;
  bool stopped_ = false;
};

error_code HttpConnection::ReplyParser::Take(std::string_view bytes) {
  std::string joined;
  if (!pending_.empty()) {
    joined.swap(pending_);
    joined.append(bytes);
    bytes = joined;
  }
  error_code error;
  while (!bytes.empty() && !done() && !error) {
    // Beast asserts that it is not shown less of a body's end than this a second time.
    if (message_->waits_for_chunk() && bytes.size() < kLeastChunkBytes) break;
    bytes.remove_prefix(message_->put(asio::const_buffer(bytes.data(), bytes.size()), error));
    if (!error && message_->is_done() && interim_) message_.emplace(this);
  }
  if (error == http::error::need_more) error = {};
  if (error || bytes.empty()) return error;
  if (bytes.size() > kMaxHeadBytes + kReadBytes) return http::error::header_limit;
  if (bytes.data() == joined.data()) {
    pending_.swap(joined);
  } else {
    pending_.assign(bytes);
  }
  return error;
}

error_code HttpConnection::ReplyParser::TakeEnd() {
  error_code error = http::error::end_of_stream;
  if (message_->got_some()) message_->put_eof(error);
  return error;
}

void HttpConnection::ReplyParser::TakeField(std::string_view name, std::string_view value,
                                            error_code* error) {
  // The parser's own limit does not count what it was shown in pieces that end with a field.
  head_bytes_ += name.size() + value.size() + 4;
  if (head_bytes_ > kMaxHeadBytes) {
    *error = http::error::header_limit;
  } else {
    fields_.emplace_back(name, value);
  }
}

void HttpConnection::ReplyParser::TakeHead(int status, error_code* error) {
  interim_ = status / 100 == 1 && status != 101;
  if (interim_) {
    if (++interim_replies_ > kMaxInterimReplies) *error = http::error::bad_status;
  } else {
    got_head_ = true;
    ReplyHead head;
    head.status = status;
    head.content_type = Field("Content-Type");
    head.retry_after = Field("Retry-After");
    head.field = [this](std::string_view name) { return Field(name); };
    on_head_(head);
  }
  HttpFields().swap(fields_);  // A stream may be open for long.
}

void HttpConnection::ReplyParser::TakeBody(std::string_view bytes, error_code* error) {
  body_bytes_ += bytes.size();
  if (max_body_bytes_ > 0 && body_bytes_ > max_body_bytes_) {
    *error = http::error::body_limit;
  } else if (broken_ != nullptr || !on_body_(bytes)) {
    stopped_ = true;
    *error = asio::error::operation_aborted;
  }
}

std::string_view HttpConnection::ReplyParser::Field(std::string_view name) const {
  for (const auto& [known, value] : fields_) {
    if (boost::beast::iequals({known.data(), known.size()}, {name.data(), name.size()})) {
      return value;
    }
  }
  return {};
}

Status HttpPeer::Prepare(const BaseUrl& to, const std::string& api_key, bool insecure) {
  url = to;
  if (!api_key.empty()) authorization = "Bearer " + api_key;
  if (!url.tls) return {};
  try {
    tls.emplace(asio::ssl::context::tls_client);
    tls->set_default_verify_paths();
    tls->set_verify_mode(insecure ? asio::ssl::verify_none : asio::ssl::verify_peer);
    if (!insecure) tls->set_verify_callback(asio::ssl::host_name_verification(url.host));
  } catch (const boost::system::system_error& e) {
    return {StatusCode::kInternal, fmt::format("TLS cannot be set up: {}.", e.code().message())};
  }
  return {};
}

HttpConnection::HttpConnection(const HttpPeer* peer, asio::io_context* io)
    : peer_(*peer), socket_(*io), timer_(*io) {}

HttpConnection::~HttpConnection() = default;

// Closing the socket ends the pending operation with an error, which End() then explains.
void HttpConnection::Break(const char* kind) {
  if (broken_ == nullptr) broken_ = kind;
  reusable_ = false;
  EndPhases();
  error_code ignored;
  socket_.close(ignored);
}

void HttpConnection::StartPhase(base::Duration timeout) {
  phase_ = timeout;
  deadline_ = last_moment_;
  if (timeout.count() > 0) {
    deadline_ = std::min(deadline_, SteadyClock::now() + std::min(timeout, kLongestTimeout));
  }
  ArmTimer();
}

void HttpConnection::EndPhases() {
  deadline_ = SteadyTime::max();
  if (timer_runs_) timer_.cancel();
  timer_runs_ = false;
}

// A deadline that moves on, as it does with every byte, leaves the timer as it is.
void HttpConnection::ArmTimer() {
  if (deadline_ == SteadyTime::max()) return;
  if (timer_runs_ && timer_.expiry() <= deadline_) return;  // It looks again then.
  timer_runs_ = true;
  timer_.expires_at(deadline_);
  timer_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
    const auto self = weak.lock();
    if (!cancelled && self) self->OnTimer();
  });
}

void HttpConnection::OnTimer() {
  timer_runs_ = false;
  const SteadyTime now = SteadyClock::now();
  if (now < deadline_) return ArmTimer();
  if (now >= last_moment_) phase_ = base::Duration{0};
  Break(http_error::kTimeout);
}

HttpEnd HttpConnection::End(const char* stage, const error_code& error) const {
  const auto end = [this](const char* kind, std::string why) {
    return HttpEnd{kind, std::move(why), sent_, answered_};
  };
  if (broken_ == http_error::kTimeout && phase_.count() > 0) {
    return end(broken_, fmt::format("nothing was received for {} s, while {}",
                                    base::ToSeconds(phase_), stage));
  }
  if (broken_ == http_error::kTimeout) {
    return end(broken_, fmt::format("not complete within {} s, while {}",
                                    base::ToSeconds(timeouts_.total), stage));
  }
  if (broken_ != nullptr) return end(broken_, "interrupted");
  if (stage == std::string_view("connecting")) return end(http_error::kConnect, error.message());
  if (IsEarlyEnd(error)) {
    return end(http_error::kEarlyEnd,
               "the server closed the connection before its answer was complete");
  }
  if (error == http::error::body_limit) {
    return end(http_error::kBadReply, "the answer is too long");
  }
  if (IsHttpError(error)) {
    return end(http_error::kBadReply,
               fmt::format("the answer is not valid HTTP: {}", error.message()));
  }
  if (error == asio::error::connection_reset || error == asio::error::broken_pipe) {
    return end(http_error::kReset, fmt::format("{}, while {}", error.message(), stage));
  }
  return end(http_error::kNetwork, fmt::format("{}, while {}", error.message(), stage));
}

HttpEnd HttpConnection::EndAtProxy(const error_code& error) const {
  HttpEnd end = End("connecting", error);
  if (peer_.proxy) end.why = fmt::format("the proxy {}: {}", peer_.proxy->Text(), end.why);
  return end;
}

asio::awaitable<HttpEnd> HttpConnection::Connect(HttpEndpoints endpoints) {
  error_code error;
  if (broken_ != nullptr) co_return End("connecting", error);
  if (timeouts_.total.count() > 0) {
    last_moment_ = SteadyClock::now() + std::min(timeouts_.total, kLongestTimeout);
  }
  StartPhase(timeouts_.connect);
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_connect(socket_, endpoints, token);
  if (error || broken_ != nullptr) co_return EndAtProxy(error);
  socket_.set_option(tcp::no_delay(true), error);
  socket_.non_blocking(true, error);
  if (error) co_return End("connecting", error);
  if (peer_.proxy) {
    const Status tunnel = co_await OpenTunnel(*peer_.proxy, peer_.url, &socket_, &error);
    if (error || broken_ != nullptr) co_return EndAtProxy(error);
    if (!tunnel.ok()) {
      const bool refused = tunnel.code() == StatusCode::kInvalidArgument;
      co_return HttpEnd{refused ? http_error::kRefused : http_error::kConnect, tunnel.message()};
    }
  }
  if (peer_.tls) {
    tls_.reset(new Tls{asio::ssl::stream<tcp::socket&>(socket_, *peer_.tls)});
    asio::ip::make_address(peer_.url.host, error);
    if (error) {  // The host has a name, which the server may need to pick its certificate.
      SSL_set_tlsext_host_name(tls_->stream.native_handle(), peer_.url.host.c_str());
    }
    co_await tls_->stream.async_handshake(asio::ssl::stream_base::client, token);
    if (error || broken_ != nullptr) co_return End("connecting", error);
  }
  co_return HttpEnd{};
}

asio::awaitable<HttpEnd> HttpConnection::Exchange(const HttpAsk& ask, const OnHead& on_head,
                                                  const OnBody& on_body) {
  error_code error;
  sent_ = answered_ = reusable_ = false;
  if (broken_ != nullptr) co_return End("sending", error);
  sent_ = true;
  StartPhase(timeouts_.first_byte);
  co_await SendRequest(ask, &error);
  // A server may reject a long body and close before it has read it; its reply says why.
  if (broken_ != nullptr) co_return End("sending", error);
  ReplyParser parser(ask, on_head, on_body, broken_);
  HttpEnd end = co_await ReadReply(&parser);
  EndPhases();
  co_return end;
}

asio::awaitable<void> HttpConnection::SendRequest(const HttpAsk& ask, error_code* error) {
  WireRequest request = MakeRequest(peer_, ask);
  auto token = asio::redirect_error(asio::use_awaitable, *error);
  if (tls_) {
    co_await http::async_write(tls_->stream, request, token);
  } else {
    co_await http::async_write(socket_, request, token);
  }
}

// Waits for bytes and only then reads them, into a buffer that is not its own: an open stream in
// which nothing comes costs no buffer.
asio::awaitable<HttpEnd> HttpConnection::ReadReply(ReplyParser* parser) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const asio::any_io_executor executor = socket_.get_executor();
  bool wait = tls_ == nullptr;  // TLS may have taken bytes from the socket already.
  while (!parser->done()) {
    if (wait) {
      co_await socket_.async_wait(tcp::socket::wait_read, token);
    } else {
      co_await asio::post(executor, asio::use_awaitable);  // Others' turn.
    }
    if (!error && broken_ == nullptr) TakeSome(parser, &error);
    if (broken_ == nullptr && parser->stopped()) break;
    wait = tls_ == nullptr || error == asio::error::would_block;
    if (error == asio::error::would_block) error = {};
    if (error || broken_ != nullptr) {
      co_return End(parser->got_head() ? "reading the answer" : "waiting for the answer", error);
    }
  }
  reusable_ = parser->done() && !parser->stopped() && parser->keeps_open();
  HttpEnd end;
  end.sent = sent_;
  end.answered = answered_;
  co_return end;
}

// Reads once, and passes on what came.
void HttpConnection::TakeSome(ReplyParser* parser, error_code* error) {
  ReadBuffer buffer;
  const size_t got = ReadSome(buffer.data(), kReadBytes, error);
  if (got > 0) {
    answered_ = true;
    *error = parser->Take(std::string_view(buffer.data(), got));
    if (parser->got_head() && broken_ == nullptr) StartPhase(timeouts_.idle);
  } else if (*error == asio::error::eof) {
    *error = parser->TakeEnd();
  }
}

// Without waiting: `error` is would_block where nothing has come.
size_t HttpConnection::ReadSome(char* bytes, size_t size, error_code* error) {
  const asio::mutable_buffer buffer(bytes, size);
  const size_t got =
      tls_ ? tls_->stream.read_some(buffer, *error) : socket_.read_some(buffer, *error);
  if (got == 0 && !*error) *error = asio::error::would_block;
  return got;
}

void HttpConnection::Watch(std::function<void()> on_gone) {
  const uint64_t watch = ++watch_;
  socket_.async_wait(
      tcp::socket::wait_read,
      [weak = weak_from_this(), watch, on_gone = std::move(on_gone)](const error_code& error) {
        const auto self = weak.lock();
        if (!self || self->watch_ != watch) return;
        if (!error && self->Quiet()) return self->Watch(on_gone);  // A message of TLS itself.
        on_gone();
      });
}

bool HttpConnection::Unwatch() {
  ++watch_;
  error_code ignored;
  socket_.cancel(ignored);
  return Quiet();
}

// Whether the server has neither closed the connection nor sent anything.
bool HttpConnection::Quiet() {
  char byte = 0;
  error_code error;
  return ReadSome(&byte, 1, &error) == 0 && error == asio::error::would_block;
}

}  // namespace ropeway::net
