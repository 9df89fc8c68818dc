#include "server/connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "server/generation.h"
#include "server/handlers.h"
#include "server/tokenize_handlers.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLinger{1000};

HttpReply MethodNotAllowed(const RouteMatch& match) {
  HttpReply reply = ErrorReply({405, "This path takes " + std::string(match.allow) + " only.",
                                "invalid_request_error", "", ""});
  reply.headers.emplace_back("Allow", std::string(match.allow));
  return reply;
}

size_t MaxReceived(const ServerLimits& limits) {
  // The headers of one request are parsed from what was received, so they must fit.
  return std::max(limits.max_pipelined_bytes, limits.max_header_bytes + 1024);
}

// The account of a connection before anybody authenticated on it; "": without a limit, since many
// clients may come from there.
std::string StrangerAccount(const asio::ip::address& peer, bool proxied) {
  return proxied || IsLoopbackAddress(peer) ? std::string() : AddressAccount(peer);
}

ConnectionTable::CloseFn Evictor(const std::shared_ptr<SocketStream>& stream,
                                 ServerContext* context) {
  return [weak = std::weak_ptr<SocketStream>(stream), context] {
    context->metrics.CountEvictedConnection();
    if (const std::shared_ptr<SocketStream> alive = weak.lock()) alive->PostClose();
  };
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const asio::ip::address& peer,
                       ServerContext* context, IoTurns* turns,
                       std::shared_ptr<asio::ssl::context> tls)
    : tls_(std::move(tls)),
      stream_(std::make_shared<SocketStream>(std::move(socket), MaxReceived(context->limits()),
                                             context->limits().write_timeout, tls_.get())),
      context_(context),
      turns_(turns),
      proxied_(context->proxies.Contains(peer)),
      place_(
          context->connections.Open(StrangerAccount(peer, proxied_), Evictor(stream_, context))) {}

void Connection::Start(std::shared_ptr<void> slot) {
  auto finished = [self = shared_from_this(), slot = std::move(slot)](std::exception_ptr error) {
    // Only a failed allocation throws; it ends this connection and no other.
    if (error) spdlog::error("A connection ended by an exception");
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
      co_await stream_->Start(SteadyClock::now() + context_->limits().header_timeout);
  if (!started) co_return;
  bool go_on = true;
  while (go_on) go_on = co_await ServeOne();
  if (stream_->write_timed_out()) context_->metrics.CountSlowReader();
  if (!stream_->gone()) co_await stream_->Linger(kLinger);
}

asio::awaitable<bool> Connection::AwaitRequest() {
  const auto deadline = SteadyClock::now() + context_->limits().idle_timeout;
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

// Reads and answers one request; false where the connection is to end.
asio::awaitable<bool> Connection::ServeOne() {
  idle_ = true;
  const bool began = co_await AwaitRequest();
  if (!began) co_return false;
  idle_ = false;
  ReadOutcome read = co_await ReadHttpRequest(stream_.get(), context_, place_.get(), proxied_);
  if (read.rejection) {
    std::string nobody;
    co_await Send(*std::move(read.rejection), read.framing, read.match, std::move(nobody));
  }
  if (!read.request) co_return false;
  const bool go_on = co_await Answer(*std::move(read.request));
  co_return go_on;
}

asio::awaitable<bool> Connection::Answer(HttpRequest request) {
  const CountScope active(&context_->active);
  if (!context_->accepting) request.framing.keep_alive = false;
  const RouteMatch match = context_->router.Match(request.method, request.target);
  // Where there are no keys, clients without one are protected while they are served. Health probes
  // never are: they are so quick that only one that does not read its answer can be evicted.
  const bool protects = context_->open && !IsHealth(match.route);
  if (protects && !place_->Protect(request.client)) {
    context_->metrics.CountRejectedConnection();
    HttpReply reply = TooManyConnections();
    std::string nobody;
    co_await Send(std::move(reply), request.framing, match, std::move(nobody));
    co_return false;
  }
  const bool keep_alive = co_await Dispatch(std::move(request));
  place_->Unprotect(proxied_);
  co_return keep_alive;
}

asio::awaitable<bool> Connection::Dispatch(HttpRequest request) {
  const RouteMatch match = context_->router.Match(request.method, request.target);
  const Framing framing = request.framing;
  const std::string tenant = request.caller.tenant;
  bool keep_alive = false;
  if (match.route != Route::kUnknown && !match.method_allowed) {
    HttpReply reply = MethodNotAllowed(match);
    keep_alive = co_await Send(std::move(reply), framing, match, tenant);
  } else if (match.route == Route::kGenerate) {
    keep_alive = co_await Generate(std::move(request), match);
  } else if (match.route == Route::kTokenize || match.route == Route::kDetokenize) {
    stream_->set_answering(true);
    const bool detokenize = match.route == Route::kDetokenize;
    HttpReply reply = co_await AnswerTokenizer(context_, stream_, std::move(request), detokenize);
    stream_->set_answering(false);
    keep_alive = co_await Send(std::move(reply), framing, match, tenant);
  } else {
    IoTurns::Turn turn;
    if (!IsHealth(match.route)) {
      base::Flow flow = FlowOf(request.caller);
      co_await turns_->Begin(std::move(flow), stream_, &turn);
    }
    HttpReply reply = AnswerPlain(match, request.caller, context_);
    turn.End();
    keep_alive = co_await Send(std::move(reply), framing, match, tenant);
  }
  co_return keep_alive;
}

asio::awaitable<bool> Connection::Generate(HttpRequest request, RouteMatch match) {
  const auto start = SteadyClock::now();
  const std::string tenant = request.caller.tenant;
  stream_->set_answering(true);
  auto generation = std::make_shared<Generation>(stream_, context_, turns_, std::move(request),
                                                 match.make_format);
  const Sent sent = co_await generation->Run();
  stream_->set_answering(false);
  context_->metrics.CountRequest(match.name, sent.status, tenant);
  const std::chrono::duration<double, std::milli> took = SteadyClock::now() - start;
  spdlog::debug("{} -> {} in {:.1f} ms", match.name, sent.status, took.count());
  co_return sent.keep_alive;
}

asio::awaitable<bool> Connection::Send(HttpReply reply, Framing framing, RouteMatch match,
                                       std::string tenant) {
  base::SharedBudget::Hold hold;
  if (!context_->ChargeAnswer(tenant, reply.body.capacity(), &hold)) {
    reply = RejectionReply(TooManyAnswers(), *context_->backend, tenant);
  }
  context_->metrics.CountRequest(match.name, reply.status, tenant);
  spdlog::debug("{} -> {}", match.name, reply.status);
  // A failure before the body is read is reported in the dialect of the path.
  if (reply.error && match.make_format) reply.body = match.make_format()->ErrorBody(*reply.error);
  std::string head = SerializeHead(reply, framing);
  if (framing.head) reply.body.clear();
  const bool written = co_await stream_->Write(std::move(head), std::move(reply.body));
  co_return written&& framing.keep_alive;
}

}  // namespace ropeway::server
