#include "http/connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <string_view>
#include <utility>

#include "http/request_reader.h"

namespace ropeway::http {
namespace {

namespace asio = boost::asio;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLinger{1000};

// The answer to a method that the path does not have.
HttpReply MethodsReply(const RouteMatch& match) {
  HttpReply reply;
  if (match.options) {
    reply.status = 204;
  } else {
    reply = ErrorReply(
        {405, "This path supports only " + match.methods + ".", "invalid_request_error", "", ""});
  }
  reply.headers.emplace_back("Allow", match.methods + ", OPTIONS");
  return reply;
}

size_t MaxReceived(const HttpLimits& limits) {
  // The headers of one request are parsed from what was received, so they must fit.
  return std::max(limits.max_pipelined_bytes, limits.max_header_bytes + 1024);
}

// The account of a connection before anybody authenticated on it; "": without a limit, since many
// clients may come from there.
std::string StrangerAccount(const asio::ip::address& peer, bool proxied) {
  return proxied || IsLoopbackAddress(peer) ? std::string() : AddressAccount(peer);
}

ConnectionTable::CloseFn Evictor(const std::shared_ptr<SocketStream>& stream,
                                 HttpContext* context) {
  return [weak = std::weak_ptr<SocketStream>(stream), context] {
    context->metrics.CountEvictedConnection();
    if (const std::shared_ptr<SocketStream> alive = weak.lock()) alive->PostClose();
  };
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const asio::ip::address& peer,
                       HttpContext* context, IoTurns* turns,
                       std::shared_ptr<asio::ssl::context> tls)
    : tls_(std::move(tls)),
      stream_(std::make_shared<SocketStream>(std::move(socket), MaxReceived(context->limits),
                                             context->limits.write_timeout, tls_.get())),
      context_(context),
      turns_(turns),
      address_(peer.to_string()),
      proxied_(context->proxies.Contains(peer)),
      place_(
          context->connections.Open(StrangerAccount(peer, proxied_), Evictor(stream_, context))) {}

void Connection::Start(std::shared_ptr<void> slot) {
  auto finished = [self = shared_from_this(), slot = std::move(slot)](std::exception_ptr error) {
    // Only a failed allocation throws; it ends this connection and no other.
    if (error) spdlog::error("A connection was closed after an exception");
    self->stream_->Close();
  };
  asio::co_spawn(stream_->executor(), Run(), std::move(finished));
}

void Connection::Stop(bool when_idle) {
  asio::post(stream_->executor(), [self = shared_from_this(), when_idle] {
    if (!when_idle || self->idle_) self->stream_->Close();
  });
}

asio::awaitable<void> Connection::Run() {
  const bool started =
      co_await stream_->Start(SteadyClock::now() + context_->limits.header_timeout);
  if (!started) co_return;
  bool go_on = true;
  while (go_on) go_on = co_await ServeOne();
  if (stream_->write_timed_out()) context_->metrics.CountSlowReader();
  if (!stream_->gone()) co_await stream_->Linger(kLinger);
}

asio::awaitable<bool> Connection::AwaitRequest() {
  const auto deadline = SteadyClock::now() + context_->limits.idle_timeout;
  while (true) {
    // Empty lines before a request are not part of it (RFC 9112, section 2.2).
    const size_t begin = stream_->received().find_first_not_of("\r\n");
    const bool any = begin != std::string_view::npos;
    stream_->Consume(any ? begin : stream_->received().size());
    if (any) co_return true;
    if (stream_->gone() || context_->closing) co_return false;
    const bool in_time = co_await stream_->Wait(deadline);
    if (!in_time) co_return false;
  }
}

asio::awaitable<bool> Connection::ServeOne() {
  idle_ = true;
  const bool began = co_await AwaitRequest();
  if (!began) co_return false;
  idle_ = false;
  const auto start = SteadyClock::now();
  ReadOutcome read = co_await ReadHttpRequest(stream_.get(), context_, place_.get(), proxied_);
  if (!read.whole && !read.rejection) co_return false;
  read.request.id = context_->NewId();
  std::string& shown = read.request.framing.request_id;
  if (shown.empty()) shown = read.request.id;
  auto exchange = std::make_shared<Exchange>(context_, stream_, turns_, std::move(read.request));
  if (const std::string_view header = exchange->route().id_header; !header.empty()) {
    exchange->headers.emplace_back(header, exchange->request.framing.request_id);
  }
  const std::string tenant = exchange->request.caller.tenant;  // A gateway may act for another.
  Sent sent;
  if (read.rejection) {
    sent = co_await exchange->Send(*std::move(read.rejection));
  } else {
    sent = co_await Answer(exchange);
  }
  Note(*exchange, tenant, sent, start);
  co_return sent.keep_alive;
}

void Connection::Note(const Exchange& exchange, const std::string& tenant, const Sent& sent,
                      SteadyClock::time_point start) {
  const HttpRequest& request = exchange.request;
  context_->metrics.CountRequest(request.match.name, sent.status, tenant);
  if (context_->access_log == nullptr || !context_->access_log->on()) return;
  const std::chrono::duration<double, std::milli> took = SteadyClock::now() - start;
  AccessRecord record = exchange.record;
  record.id = request.framing.request_id;
  if (record.id != request.id) record.own_id = request.id;
  record.key = tenant;
  record.address = request.forwarded_for.empty() ? address_ : request.forwarded_for;
  record.method = request.method;
  record.route = request.match.name;
  record.status = sent.status;
  record.total_ms = took.count();
  context_->access_log->Write(record);
}

asio::awaitable<Sent> Connection::Answer(std::shared_ptr<Exchange> exchange) {
  const CountScope active(&context_->active);
  HttpRequest& request = exchange->request;
  if (!context_->accepting()) request.framing.keep_alive = false;
  Sent sent;
  // Where there are no keys, clients without one are protected while they are served. Health probes
  // never are: they are so quick that only one that does not read its answer can be evicted.
  const bool protects = context_->open && !exchange->route().limits.probe;
  if (protects && !place_->Protect(request.client)) {
    context_->metrics.CountRejectedConnection();
    request.framing.keep_alive = false;
    HttpReply reply = TooManyConnections();
    sent = co_await exchange->Send(std::move(reply));
    co_return sent;
  }
  if (request.match.method_allowed) {
    sent = co_await exchange->route().handler(exchange);
  } else {
    HttpReply reply = MethodsReply(request.match);
    sent = co_await exchange->Send(std::move(reply));
  }
  place_->Unprotect(proxied_);
  co_return sent;
}

}  // namespace ropeway::http
