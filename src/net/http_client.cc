#include "net/http_client.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <cstdint>
#include <exception>

namespace ropeway::net {
namespace {

namespace asio = boost::asio;

constexpr size_t kMaxFetchBytes = size_t{16} << 20;

base::Duration Nanoseconds(double seconds) {
  return base::Duration(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace

StatusOr<std::unique_ptr<HttpClient>> HttpClient::Open(const BaseUrl& url, std::string api_key,
                                                       bool insecure, std::optional<Proxy> proxy) {
  auto client = std::make_unique<HttpClient>();
  asio::io_context io;
  asio::ip::tcp::resolver resolver(io);
  boost::system::error_code error;
  const std::string& host = proxy ? proxy->host : url.host;
  const uint16_t port = proxy ? proxy->port : url.port;
  client->endpoints_ = resolver.resolve(host, std::to_string(port), error);
  if (error) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("The {} '{}' cannot be resolved: {}.", proxy ? "proxy" : "host", host,
                              error.message()));
  }
  client->peer_.proxy = std::move(proxy);
  Status prepared = client->peer_.Prepare(url, api_key, insecure);
  if (!prepared.ok()) return prepared;
  return client;
}

HttpClient::Reply HttpClient::Fetch(const std::string& path, const std::string& body,
                                    double timeout) const {
  asio::io_context io(1);
  Reply reply;
  HttpCall call(this, &io);
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
  asio::co_spawn(io, call.Run(path, body, timeout, on_head, on_body),
                 [&](const std::exception_ptr& exception, HttpEnd result) {
                   end = std::move(result);
                   if (exception) end = {http_error::kNetwork, "out of memory"};
                 });
  io.run();
  if (end.kind != nullptr) reply = {0, "", std::move(end.why), end.kind};
  return reply;
}

asio::awaitable<HttpEnd> HttpCall::Run(const std::string& path, const std::string& body,
                                       double timeout, const OnHead& on_head,
                                       const OnBody& on_body) {
  const base::Duration limit = Nanoseconds(timeout);
  HttpTimeouts timeouts;
  if (timeout_when_idle_) {
    timeouts.connect = timeouts.first_byte = timeouts.idle = limit;
  } else {
    timeouts.total = limit;
  }
  connection_->set_timeouts(timeouts);
  HttpEnd end = co_await connection_->Connect(client_.endpoints_);
  if (end.kind == nullptr) {
    const HttpAsk ask{body.empty() ? "GET" : "POST", path, body, fields_};
    end = co_await connection_->Exchange(ask, on_head, on_body);
  }
  connection_->Break(http_error::kInterrupted);  // Closes it; the reply is here.
  co_return end;
}

}  // namespace ropeway::net
