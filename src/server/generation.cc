#include "server/generation.h"

#include <chrono>
#include <ctime>
#include <memory>
#include <utility>

#include "server/collector_sink.h"
#include "server/openai_request.h"
#include "server/openai_response.h"
#include "server/plain_handlers.h"
#include "server/sse_sink.h"

namespace ropeway {
namespace {

namespace asio = boost::asio;

// A request in the backend's hands. Whatever way the coroutine ends, the sink lets go of the
// connection and a request that did not end is cancelled.
class Submitted {
 public:
  Submitted(Backend* backend, RequestId id, std::shared_ptr<ServerSink> sink)
      : backend_(backend), id_(id), sink_(std::move(sink)) {}
  ~Submitted() {
    sink_->Close();
    if (!ended_) backend_->Cancel(id_);
  }
  Submitted(const Submitted&) = delete;
  Submitted& operator=(const Submitted&) = delete;

  bool Ended() { return sink_->Ended(); }

  ServerSink::Output Take() {
    ServerSink::Output output = sink_->Take();
    if (output.end) ended_ = true;
    return output;
  }

 private:
  Backend* const backend_;
  const RequestId id_;
  const std::shared_ptr<ServerSink> sink_;
  bool ended_ = false;
};

// How the request ended for its client: an end that is no answer becomes an error.
Status EndStatus(const ServerSink::Output::End& end) {
  if (!end.status.ok()) return end.status;
  if (end.finish.reason == FinishReason::kCancelled) {
    return {StatusCode::kCancelled, "The server cancelled the request."};
  }
  if (end.finish.reason == FinishReason::kFailed) {
    return {StatusCode::kInternal, "The request failed in the server."};
  }
  return {};
}

HttpReply RefusalFor(const Status& status, const Backend& backend) {
  HttpReply reply = ErrorReply(ToApiError(status));
  if (reply.status == 429 || reply.status == 503) {
    reply.headers.emplace_back("Retry-After", std::to_string(backend.RetryAfterSeconds()));
  }
  return reply;
}

// The next news of the backend or the client; no deadline: the client may wait as long as it stays.
SocketStream::Deadline Never() { return SocketStream::Deadline::max(); }

asio::awaitable<Sent> SendReply(SocketStream* stream, HttpReply reply, Framing framing) {
  Sent sent;
  std::string bytes = Serialize(reply, framing);
  const bool written = co_await stream->Write(std::move(bytes));
  if (written) sent.status = reply.status;
  sent.keep_alive = written && framing.keep_alive;
  co_return sent;
}

asio::awaitable<Sent> SendWhole(SocketStream* stream, ServerContext* context, Submitted* submitted,
                                const AnswerHead& head, Framing framing) {
  while (!submitted->Ended()) {
    if (stream->gone()) co_return Sent{};
    co_await stream->Wait(Never());
  }
  ServerSink::Output output = submitted->Take();
  const Status status = EndStatus(*output.end);
  HttpReply reply;
  if (status.ok()) {
    if (output.deltas.empty()) output.deltas.emplace_back();
    const Delta& all = output.deltas.front();
    reply.body = AnswerJson(head, all.text, all.tokens, output.end->finish);
  } else {
    reply = RefusalFor(status, *context->backend);
  }
  const Sent sent = co_await SendReply(stream, std::move(reply), framing);
  co_return sent;
}

// The bytes of what was taken, each event one chunk.
std::string StreamBytes(const ServerSink::Output& output, const Framing& framing,
                        EventWriter* events) {
  std::string bytes;
  for (const Delta& delta : output.deltas) AppendChunk(events->Delta(delta), framing, &bytes);
  if (!output.end) return bytes;
  const Status status = EndStatus(*output.end);
  AppendChunk(status.ok() ? events->End(output.end->finish) : EventWriter::Error(status), framing,
              &bytes);
  AppendLastChunk(framing, &bytes);
  return bytes;
}

asio::awaitable<Sent> SendStream(SocketStream* stream, ServerContext* context, Submitted* submitted,
                                 const AnswerHead& head, Framing framing) {
  if (framing.http_1_0) framing.keep_alive = false;  // Only the connection's end ends the body.
  EventWriter events(head);
  Sent sent;
  bool head_sent = false;
  while (true) {
    const ServerSink::Output output = submitted->Take();
    if (!head_sent && output.end && !output.end->status.ok()) {
      HttpReply reply = RefusalFor(output.end->status, *context->backend);
      sent = co_await SendReply(stream, std::move(reply), framing);
      co_return sent;
    }
    std::string bytes;
    if (!head_sent && (output.admitted || output.end)) {
      bytes = EventStreamHead(framing);
      AppendChunk(events.Begin(), framing, &bytes);
      head_sent = true;
      sent.status = 200;
    }
    bytes += StreamBytes(output, framing, &events);
    bool written = true;
    if (!bytes.empty()) written = co_await stream->Write(std::move(bytes));
    if (written && output.end) {
      sent.keep_alive = framing.keep_alive;
      co_return sent;
    }
    if (!written || stream->gone()) co_return Sent{};
    co_await stream->Wait(Never());
  }
}

ServerSink::WakeFn WakeOf(const std::shared_ptr<SocketStream>& stream, ServerContext* context) {
  return [weak = std::weak_ptr<SocketStream>(stream), context](bool overflow) {
    if (overflow) context->metrics.CountSlowReader();
    std::shared_ptr<SocketStream> alive = weak.lock();
    if (!alive) return;
    overflow ? alive->PostClose() : alive->PostSignal();
  };
}

std::shared_ptr<ServerSink> MakeSink(const ApiRequest& api,
                                     const std::shared_ptr<SocketStream>& stream,
                                     ServerContext* context) {
  ServerSink::WakeFn wake = WakeOf(stream, context);
  const ServerLimits& limits = context->limits();
  if (!api.stream) {
    return std::make_shared<CollectorSink>(api.request.logprobs.has_value(), std::move(wake));
  }
  return std::make_shared<SseSink>(limits.max_stream_bytes, limits.max_stream_events,
                                   std::move(wake));
}

StatusOr<ApiRequest> Validate(const HttpRequest& request, bool chat, ServerContext* context) {
  if (!context->accepting) {
    return Status(StatusCode::kUnavailable, "The server is stopping; no new request is accepted.");
  }
  const ServerLimits& limits = context->limits();
  return ParseApiRequest(
      request.body, chat,
      {.max_depth = limits.max_json_depth, .max_values = limits.max_json_values});
}

AnswerHead HeadOf(const ApiRequest& api, const ModelInfo& model, ServerContext* context) {
  AnswerHead head;
  head.id = context->NewId(api.chat ? "chatcmpl" : "cmpl");
  head.created = static_cast<int64_t>(std::time(nullptr));
  head.model = model.id;
  head.chat = api.chat;
  head.include_usage = api.include_usage;
  head.logprobs = api.request.logprobs.has_value();
  return head;
}

}  // namespace

asio::awaitable<Sent> Generate(std::shared_ptr<SocketStream> stream, ServerContext* context,
                               HttpRequest request, bool chat) {
  const Framing framing = request.framing;
  Backend* backend = context->backend;
  Status refusal;
  StatusOr<ApiRequest> api = Validate(request, chat, context);
  request.body = std::string();  // It may be large, and is not needed any more.
  request.body_hold.Release();
  StatusOr<ModelInfo> model = Status(StatusCode::kNotFound, "");
  if (!api.ok()) refusal = api.status();
  if (refusal.ok()) {
    model = FindModel(api->request.model, *backend);
    if (!model.ok()) refusal = model.status();
  }
  Sent sent;
  if (refusal.ok()) {
    const AnswerHead head = HeadOf(*api, *model, context);
    std::shared_ptr<ServerSink> sink = MakeSink(*api, stream, context);
    api->request.tenant = std::move(request.tenant);
    StatusOr<RequestId> id = backend->Submit(std::move(api->request), sink);
    if (id.ok()) {
      Submitted submitted(backend, *id, std::move(sink));
      if (api->stream) {
        sent = co_await SendStream(stream.get(), context, &submitted, head, framing);
      } else {
        sent = co_await SendWhole(stream.get(), context, &submitted, head, framing);
      }
      co_return sent;
    }
    refusal = id.status();
  }
  HttpReply reply = RefusalFor(refusal, *backend);
  sent = co_await SendReply(stream.get(), std::move(reply), framing);
  co_return sent;
}

}  // namespace ropeway
