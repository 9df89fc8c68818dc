#include "server/stored_call.h"

#include <fmt/format.h>

#include <utility>

#include "api/json.h"
#include "base/words.h"
#include "http/http_reply.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;

std::vector<std::string> Decoded(const std::vector<std::string>& arguments) {
  std::vector<std::string> decoded;
  for (const std::string& argument : arguments) decoded.push_back(base::PercentDecoded(argument));
  return decoded;
}

Status NoStore(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    Status none(StatusCode::kUnavailable,
                "This server keeps no answers: start it with --state-path.");
    none.set_api_code(api::kNoStore);
    return none;
  }
  return {StatusCode::kNotFound,
          fmt::format("There is no '{}' here: this server keeps no answers, which needs "
                      "--state-path.",
                      api::ShownName(base::PercentDecoded(arguments.front()))),
          "id"};
}

// What is not there is what the path names, where nothing else is said.
Status AboutPath(const Status& status) {
  if (status.code() != StatusCode::kNotFound || !status.field().empty()) return status;
  return {status.code(), status.message(), "id"};
}

}  // namespace

PendingWrite::PendingWrite(const std::shared_ptr<http::SocketStream>& stream)
    : end_(std::make_shared<End>()) {
  end_->stream = stream;
}

store::ObjectStore::DoneFn PendingWrite::Done(std::shared_ptr<void> keep) {
  return [end = end_, keep = std::move(keep)](const Status& status) mutable {
    // The client's next request may need what was kept.
    keep.reset();
    end->status = status;
    end->done = true;
    const std::lock_guard lock(end->mutex);
    if (const auto alive = end->stream.lock()) alive->PostSignal();
  };
}

asio::awaitable<Status> PendingWrite::Wait(std::shared_ptr<http::SocketStream> stream) const {
  const std::shared_ptr<End> end = end_;
  if (!taken_) co_return Status();
  while (!end->done && !stream->gone()) co_await stream->Wait(http::SocketStream::Deadline::max());
  if (!end->done) co_return Status(StatusCode::kCancelled, "The client left.");
  co_return end->status;
}

void PendingWrite::Close() {
  const std::lock_guard lock(end_->mutex);
  end_->stream.reset();
}

StoredCall::StoredCall(http::Exchange* exchange, ServerContext* context)
    : context(context),
      tenant(exchange->request.caller.tenant),
      arguments(Decoded(exchange->request.match.arguments)),
      query(exchange->request.match.query),
      body(std::move(exchange->request.body)),
      body_hold(std::move(exchange->request.body_hold)),
      write(exchange->stream) {}

Status StoredCall::Write(std::vector<store::ObjectChange> changes, std::shared_ptr<void> keep) {
  Status status = store().Write(std::move(changes), write.Done(std::move(keep)));
  if (status.ok()) write.set_taken();
  return status;
}

asio::awaitable<StatusOr<std::string>> RunStored(std::shared_ptr<http::Exchange> exchange,
                                                 ServerContext* context, StoredWork work) {
  if (context->stored == nullptr) co_return NoStore(exchange->request.match.arguments);
  const std::shared_ptr<http::SocketStream> stream = exchange->stream;
  stream->set_answering(true);
  StatusOr<std::string> answer = std::string();
  try {
    base::Flow flow = http::FlowOf(exchange->request.caller);
    const auto call = std::make_shared<StoredCall>(exchange.get(), context);
    // However this ends.
    const std::shared_ptr<void> close(nullptr, [call](void*) { call->write.Close(); });
    HelperWork on_helper = [call, work = std::move(work)]() -> StatusOr<std::string> {
      return work(call.get());
    };
    answer = co_await context->RunOnHelper(std::move(flow), stream, std::move(on_helper));
    if (answer.ok()) {
      Status written = co_await call->write.Wait(stream);
      if (!written.ok()) answer = std::move(written);
    }
    if (!stream->gone()) {
      std::vector<std::string> ignored = std::move(call->ignored);
      // Work that fails may not have come to read its parameters.
      if (answer.ok()) {
        for (std::string& name : call->query.Unread()) ignored.push_back(std::move(name));
      }
      context->TellIgnored(ignored, exchange.get());
    }
  } catch (...) {
    answer = http::StatusFromException();
  }
  stream->set_answering(false);
  if (!answer.ok()) answer = AboutPath(answer.status());
  co_return answer;
}

asio::awaitable<http::Sent> AnswerStored(std::shared_ptr<http::Exchange> exchange,
                                         ServerContext* context, StoredWork work) {
  StatusOr<std::string> answer = co_await RunStored(exchange, context, std::move(work));
  http::HttpReply reply = context->ReplyOf(std::move(answer), exchange->request.caller.tenant);
  const http::Sent sent = co_await exchange->Send(std::move(reply));
  co_return sent;
}

http::Route::Handler Stored(ServerContext* context, StoredWork work) {
  return [context, work = std::move(work)](std::shared_ptr<http::Exchange> exchange) {
    return AnswerStored(std::move(exchange), context, work);
  };
}

}  // namespace ropeway::server
