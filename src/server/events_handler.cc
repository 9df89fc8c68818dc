// GET /admin/events.
#include <memory>
#include <string>
#include <utility>

#include "http/exchange.h"
#include "server/event_feed.h"
#include "server/event_frame.h"
#include "server/handlers.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;

constexpr const char* kEventStream = "text/event-stream";

// Leaves where the handler ends, whatever ends it.
class Watching {
 public:
  Watching(EventFeed* feed, const std::shared_ptr<http::SocketStream>& stream) : feed_(feed) {
    watcher_ = feed->Watch([weak = std::weak_ptr(stream)] {
      if (const auto alive = weak.lock()) alive->PostSignal();
    });
  }
  ~Watching() {
    if (watcher_ != nullptr) feed_->Leave(watcher_);
  }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

  EventFeed::Watcher* watcher() const { return watcher_.get(); }

 private:
  EventFeed* const feed_;
  std::shared_ptr<EventFeed::Watcher> watcher_;
};

asio::awaitable<http::Sent> SendEvents(ServerContext* context,
                                       std::shared_ptr<http::Exchange> exchange) {
  http::Framing& framing = exchange->request.framing;
  if (framing.head) {
    http::HttpReply reply;
    reply.content_type = kEventStream;
    const http::Sent sent = co_await exchange->Send(std::move(reply));
    co_return sent;
  }
  const std::shared_ptr<http::SocketStream> stream = exchange->stream;
  const Watching watching(&context->events, stream);
  if (watching.watcher() == nullptr) {
    if (context->http.state == http::HttpContext::State::kStopping) {
      const http::Sent sent = co_await exchange->Send(context->Rejection(
          {StatusCode::kUnavailable, NotAccepting(http::HttpContext::State::kStopping)},
          exchange->request.caller.tenant));
      co_return sent;
    }
    const std::string message = "Too many clients watch this server: at most " +
                                std::to_string(EventFeed::kMostWatchers) +
                                " may read /admin/events at once.";
    http::HttpReply reply =
        http::ErrorReply({429, message, "rate_limit_error", "", "too_many_watchers"});
    const http::Sent sent = co_await exchange->Send(std::move(reply));
    co_return sent;
  }
  if (framing.http_1_0) framing.keep_alive = false;
  std::string bytes = exchange->StreamHead(kEventStream, {});
  http::AppendChunk(HelloEvent(*context->backend, context->events.process()), framing, &bytes);
  while (true) {
    const bool closed = watching.watcher()->closed();
    for (const EventFeed::Frame& frame : watching.watcher()->Take()) {
      http::AppendChunk(*frame, framing, &bytes);
    }
    if (closed) http::AppendLastChunk(framing, &bytes);
    if (!bytes.empty()) {
      std::string next = std::exchange(bytes, {});
      const bool written = co_await stream->Write(std::move(next));
      if (!written) stream->Close();
    }
    if (stream->gone()) co_return http::Sent{};
    if (closed) co_return http::Sent{.status = 200, .keep_alive = framing.keep_alive};
    co_await stream->Wait(http::SocketStream::Deadline::max());
  }
}

}  // namespace

http::Route::Handler StreamsEvents(ServerContext* context) {
  return [context](std::shared_ptr<http::Exchange> exchange) {
    return SendEvents(context, std::move(exchange));
  };
}

}  // namespace ropeway::server
