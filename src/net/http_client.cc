#include "net/http_client.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <utility>

namespace ropeway::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr uint32_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMaxFetchBytes = size_t{16} << 20;

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

bool IsHttpError(const error_code& error) {
  return error.category() == make_error_code(http::error::end_of_stream).category();
}

}  // namespace

StatusOr<std::unique_ptr<HttpClient>> HttpClient::Open(const BaseUrl& url, std::string api_key,
                                                       bool insecure) {
  auto client = std::make_unique<HttpClient>();
  client->url_ = url;
  if (!api_key.empty()) client->authorization_ = "Bearer " + std::move(api_key);

  asio::io_context io;
  tcp::resolver resolver(io);
  error_code error;
  client->endpoints_ = resolver.resolve(url.host, std::to_string(url.port), error);
  if (error) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("The host '{}' cannot be resolved: {}.", url.host, error.message()));
  }
  if (url.tls) {
    client->tls_.emplace(asio::ssl::context::tls_client);
    client->tls_->set_default_verify_paths(error);
    client->tls_->set_verify_mode(insecure ? asio::ssl::verify_none : asio::ssl::verify_peer);
    if (!insecure) {
      client->tls_->set_verify_callback(asio::ssl::host_name_verification(url.host));
    }
  }
  return client;
}

HttpClient::Reply HttpClient::Fetch(const std::string& path, const std::string& body,
                                    double timeout) const {
  asio::io_context io(1);
  Reply reply;
  const auto call = std::make_shared<HttpCall>(this, &io);
  const HttpCall::OnHead on_head = [&](const ReplyHead& head) {
    reply.status = head.status;
    reply.location = head.field("Location");
    reply.link = head.field("Link");
  };
  const HttpCall::OnBody on_body = [&](std::string_view bytes) {
    reply.body += bytes;
    return reply.body.size() <= kMaxFetchBytes;
  };
  HttpEnd end;
  asio::co_spawn(io, call->Run(path, body, timeout, on_head, on_body),
                 [&](const std::exception_ptr& exception, HttpEnd result) {
                   end = std::move(result);
                   if (exception) end = {http_error::kNetwork, "out of memory"};
                 });
  io.run();
  if (end.kind != nullptr) reply = {0, "", std::move(end.why), end.kind};
  return reply;
}

void HttpCall::Interrupt() { Break(http_error::kInterrupted); }

// Closing the socket ends the pending operation with an error, which End() then explains.
void HttpCall::Break(const char* kind) {
  if (broken_ == nullptr) broken_ = kind;
  error_code ignored;
  socket_.close(ignored);
}

void HttpCall::StartTimer() {
  timer_.expires_after(Nanoseconds(timeout_));
  timer_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
    const auto call = weak.lock();
    if (!cancelled && call) call->Break(http_error::kTimeout);
  });
}

HttpEnd HttpCall::End(const char* stage, const error_code& error) const {
  if (broken_ == http_error::kTimeout) {
    const char* const what = timeout_when_idle_ ? "nothing came for" : "not complete within";
    return {broken_, fmt::format("{} {} s, while {}", what, timeout_, stage)};
  }
  if (broken_ != nullptr) return {broken_, "interrupted"};
  if (stage == std::string_view("connecting")) return {http_error::kConnect, error.message()};
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == asio::error::eof || error == asio::ssl::error::stream_truncated) {
    return {http_error::kEarlyEnd,
            "the server closed the connection before its answer was complete"};
  }
  if (IsHttpError(error)) {
    return {http_error::kBadReply, fmt::format("the answer is no HTTP: {}", error.message())};
  }
  if (error == asio::error::connection_reset || error == asio::error::broken_pipe) {
    return {http_error::kReset, fmt::format("{}, while {}", error.message(), stage)};
  }
  return {http_error::kNetwork, fmt::format("{}, while {}", error.message(), stage)};
}

asio::awaitable<HttpEnd> HttpCall::Run(const std::string& path, const std::string& body,
                                       double timeout, const OnHead& on_head,
                                       const OnBody& on_body) {
  timeout_ = timeout;
  StartTimer();
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_connect(socket_, client_.endpoints_, token);
  if (error) {
    timer_.cancel();
    co_return End("connecting", error);
  }
  socket_.set_option(tcp::no_delay(true), error);
  HttpEnd end;
  if (client_.tls_) {
    end = co_await Secure(path, body, on_head, on_body);
  } else {
    end = co_await Talk(&socket_, path, body, on_head, on_body);
  }
  timer_.cancel();
  socket_.close(error);
  co_return end;
}

asio::awaitable<HttpEnd> HttpCall::Secure(const std::string& path, const std::string& body,
                                          const OnHead& on_head, const OnBody& on_body) {
  asio::ssl::stream<tcp::socket&> stream(socket_, *client_.tls_);
  SSL_set_tlsext_host_name(stream.native_handle(), client_.url_.host.c_str());
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await stream.async_handshake(asio::ssl::stream_base::client, token);
  if (error) co_return End("connecting", error);
  HttpEnd end = co_await Talk(&stream, path, body, on_head, on_body);
  co_return end;
}

template <typename Stream>
asio::awaitable<HttpEnd> HttpCall::Talk(Stream* stream, const std::string& path,
                                        const std::string& body, const OnHead& on_head,
                                        const OnBody& on_body) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  http::request<http::span_body<const char>> request(
      body.empty() ? http::verb::get : http::verb::post, client_.url_.path + path, 11);
  request.set(http::field::host, client_.url_.Authority());
  request.set(http::field::user_agent, "ropeway");
  request.set(http::field::connection, "close");
  if (!client_.authorization_.empty()) {
    request.set(http::field::authorization, client_.authorization_);
  }
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : fields_) request.set(name, value);
  request.body() = {body.data(), body.size()};
  request.prepare_payload();
  co_await http::async_write(*stream, request, token);
  // A server may reject a long body and close before it has read it; its reply says why.
  if (error && broken_ != nullptr) co_return End("sending", error);

  boost::beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  parser.header_limit(kMaxHeaderBytes);
  error = {};
  co_await http::async_read_header(*stream, buffer, parser, token);
  if (error) co_return End("waiting for the answer", error);
  const auto type = parser.get()[http::field::content_type];
  const auto retry = parser.get()[http::field::retry_after];
  ReplyHead head;
  head.status = parser.get().result_int();
  head.content_type = std::string_view(type.data(), type.size());
  head.retry_after = std::string_view(retry.data(), retry.size());
  head.field = [&parser](std::string_view name) {
    const auto value = parser.get()[boost::beast::string_view(name.data(), name.size())];
    return std::string_view(value.data(), value.size());
  };
  on_head(head);

  std::array<char, kReadBytes> bytes;
  while (!parser.is_done()) {
    parser.get().body().data = bytes.data();
    parser.get().body().size = bytes.size();
    co_await http::async_read_some(*stream, buffer, parser, token);
    const size_t got = bytes.size() - parser.get().body().size;
    if (got > 0 && timeout_when_idle_) StartTimer();
    if (got > 0 && !on_body(std::string_view(bytes.data(), got))) co_return HttpEnd{};
    if (error && error != http::error::need_buffer) co_return End("reading the answer", error);
  }
  co_return HttpEnd{};
}

}  // namespace ropeway::net
