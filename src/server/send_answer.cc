#include "server/send_answer.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/event_writer.h"

namespace ropeway {
namespace {

namespace asio = boost::asio;

// About a millisecond of writing.
constexpr size_t kMaxInlineLogprobs = 1000;

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

// No deadline: the client may wait as long as it stays.
SocketStream::Deadline Never() { return SocketStream::Deadline::max(); }

// When a stream that sends something now is to send the next thing at the latest.
SocketStream::Deadline KeepAliveDeadline(const ServerLimits& limits) {
  if (limits.keep_alive_interval.count() <= 0) return Never();
  return std::chrono::steady_clock::now() + limits.keep_alive_interval;
}

// The answer for a request that ended without one. OpenAI's clients send a request that got a 503
// again, which is right of a server that stops, but would undo an admin's cancel.
HttpReply FailureReply(const Status& failure, const ServerContext& context) {
  HttpReply reply = RefusalFor(failure, *context.backend);
  if (failure.code() == StatusCode::kCancelled && context.accepting) {
    reply.headers.emplace_back("x-should-retry", "false");
  }
  return reply;
}

// What an answer's headers say of its request: where it stood in the queue, and what its key may
// still use.
HttpHeaders AnswerHeaders(const ServerContext& context, Submission* submission) {
  HttpHeaders headers = context.key_limits.Headers(submission->tenant());
  if (const std::optional<int32_t> position = submission->queue_position()) {
    headers.emplace_back("x-ropeway-queue-position", std::to_string(*position));
  }
  return headers;
}

// Takes what ended; whether all did. A failure ends the wait at once.
bool CollectEnded(Submission* submission, std::vector<ChoiceOutput>* choices, Status* failure) {
  bool all = true;
  for (size_t i = 0; i < submission->size(); ++i) {
    if (submission->ended(i)) continue;
    if (!submission->Look(i).ended) {
      all = false;
      continue;
    }
    ServerSink::Output output = submission->Take(i);
    *failure = EndStatus(*output.end);
    if (!failure->ok()) return true;
    ChoiceOutput& choice = (*choices)[i];
    choice.finish = output.end->finish;
    if (output.deltas.empty()) continue;
    Delta& collected = output.deltas.front();
    choice.text = std::move(collected.text);
    choice.tokens = std::move(collected.tokens);
    choice.prompt_tokens = std::move(collected.prompt_tokens);
  }
  return all;
}

// About how many numbers and texts the answer's log-probabilities hold.
size_t CountLogprobs(const std::vector<ChoiceOutput>& choices) {
  size_t count = 0;
  for (const ChoiceOutput& choice : choices) {
    for (const OutputToken& token : choice.tokens) count += 1 + token.top_logprobs.size();
    for (const OutputToken& token : choice.prompt_tokens) count += 1 + token.top_logprobs.size();
  }
  return count;
}

// The answer's JSON, written by a helper thread where it takes long.
asio::awaitable<std::string> WriteAnswer(ServerContext* context, const AnswerHead& head,
                                         const std::vector<ChoiceOutput>& choices) {
  if (CountLogprobs(choices) > kMaxInlineLogprobs) {
    std::function<StatusOr<std::string>()> work = [&]() -> StatusOr<std::string> {
      return AnswerJson(head, choices);
    };
    StatusOr<std::string> written = co_await context->helpers.Run<std::string>(std::move(work));
    if (written.ok()) co_return *std::move(written);
  }
  co_return AnswerJson(head, choices);
}

// Whether a stream's headers may leave: all choices are admitted. `*failure` is set where one of
// them failed by now, also after its admission: a status code tells clients more than a stream that
// breaks off.
bool AllAdmitted(Submission* submission, Status* failure) {
  bool all = true;
  for (size_t i = 0; i < submission->size(); ++i) {
    const ServerSink::Progress progress = submission->Look(i);
    if (progress.failed) {
      *failure = submission->Take(i).end->status;
      return false;
    }
    if (!progress.admitted && !progress.ended) all = false;
  }
  return all;
}

// Appends the events of all that arrived, each choice's as one chunk. Whether the answer is
// complete: all choices ended, or one failed.
bool AppendNews(Submission* submission, const Framing& framing, EventWriter* events,
                std::string* bytes) {
  bool all_ended = true;
  for (size_t i = 0; i < submission->size(); ++i) {
    if (submission->ended(i)) continue;
    ServerSink::Output output = submission->Take(i);
    for (Delta& delta : output.deltas) {
      AppendChunk(events->Delta(i, std::move(delta)), framing, bytes);
    }
    if (!output.end) {
      all_ended = false;
      continue;
    }
    const Status status = EndStatus(*output.end);
    if (!status.ok()) {
      AppendChunk(EventWriter::Error(status), framing, bytes);
      AppendLastChunk(framing, bytes);
      return true;
    }
    AppendChunk(events->End(i, output.end->finish), framing, bytes);
  }
  if (all_ended) {
    AppendChunk(events->Done(), framing, bytes);
    AppendLastChunk(framing, bytes);
  }
  return all_ended;
}

}  // namespace

HttpReply RefusalFor(const Status& status, const Backend& backend) {
  HttpReply reply = ErrorReply(ToApiError(status));
  if (reply.status == 429 || reply.status == 503) {
    const int known = status.retry_after_seconds();
    reply.headers.emplace_back("Retry-After",
                               std::to_string(known > 0 ? known : backend.RetryAfterSeconds()));
  }
  // OpenAI's clients would send a request that ran out of its own time again.
  if (reply.status == 408) reply.headers.emplace_back("x-should-retry", "false");
  return reply;
}

asio::awaitable<Sent> SendReply(SocketStream* stream, HttpReply reply, Framing framing) {
  Sent sent;
  std::string bytes = Serialize(reply, framing);
  const bool written = co_await stream->Write(std::move(bytes));
  if (written) sent.status = reply.status;
  sent.keep_alive = written && framing.keep_alive;
  co_return sent;
}

asio::awaitable<Sent> SendWhole(SocketStream* stream, ServerContext* context,
                                Submission* submission, const AnswerHead& head, Framing framing) {
  std::vector<ChoiceOutput> choices(submission->size());
  Status failure;
  while (!CollectEnded(submission, &choices, &failure)) {
    if (stream->gone()) co_return Sent{};
    co_await stream->Wait(Never());
  }
  HttpReply reply;
  if (failure.ok()) {
    reply.body = co_await WriteAnswer(context, head, choices);
    reply.headers = AnswerHeaders(*context, submission);
  } else {
    reply = FailureReply(failure, *context);
  }
  const Sent sent = co_await SendReply(stream, std::move(reply), framing);
  co_return sent;
}

asio::awaitable<Sent> SendStream(SocketStream* stream, ServerContext* context,
                                 Submission* submission, const AnswerHead& head, Framing framing,
                                 bool* began) {
  if (framing.http_1_0) framing.keep_alive = false;  // Only the connection's end ends the body.
  Sent sent;
  Status failure;
  while (!AllAdmitted(submission, &failure)) {
    if (!failure.ok()) {
      HttpReply reply = FailureReply(failure, *context);
      sent = co_await SendReply(stream, std::move(reply), framing);
      co_return sent;
    }
    if (stream->gone()) co_return Sent{};
    co_await stream->Wait(Never());
  }
  EventWriter events(head, submission->size());
  std::string bytes = EventStreamHead(framing, AnswerHeaders(*context, submission));
  AppendChunk(events.Begin(), framing, &bytes);
  *began = true;
  SocketStream::Deadline deadline = Never();  // Of the next word; set by the first write.
  sent.status = 200;
  while (true) {
    const bool ended = AppendNews(submission, framing, &events, &bytes);
    bool written = true;
    if (!bytes.empty()) {
      written = co_await stream->Write(std::exchange(bytes, {}));
      deadline = KeepAliveDeadline(context->limits());
    }
    if (written && ended) {
      sent.keep_alive = framing.keep_alive;
      co_return sent;
    }
    if (!written || stream->gone()) co_return Sent{};
    co_await stream->Wait(deadline);
    if (std::chrono::steady_clock::now() >= deadline) {
      AppendChunk(EventWriter::KeepAlive(), framing, &bytes);
    }
  }
}

}  // namespace ropeway
