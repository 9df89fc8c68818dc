#include "server/send_answer.h"

#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "base/chat_size.h"
#include "server/answer_records.h"
#include "server/delta_merge.h"
#include "server/input_feed.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;

// About a millisecond of writing.
constexpr size_t kMaxInlineLogprobs = 1000;
constexpr size_t kMaxInlineText = size_t{128} << 10;  // Bytes.

// Between two looks for a place among the helpers' jobs.
constexpr std::chrono::milliseconds kHelperPause{20};

// How the request ended for its client: an end without an answer becomes an error.
Status EndStatus(const Outcome& end) {
  if (!end.status.ok()) return end.status;
  if (end.finish.reason == FinishReason::kCancelled) {
    return {StatusCode::kCancelled, "The server cancelled the request."};
  }
  return {};
}

// No deadline: the client may wait as long as it stays.
http::SocketStream::Deadline Never() { return http::SocketStream::Deadline::max(); }

// When a stream that sends something now must have sent the next bytes.
http::SocketStream::Deadline KeepAliveDeadline(const api::ApiFormat& format,
                                               const ServerLimits& limits) {
  if (limits.keep_alive_interval.count() <= 0 || format.KeepAlive().empty()) return Never();
  return std::chrono::steady_clock::now() + limits.keep_alive_interval;
}

using Holds = std::vector<base::SharedBudget::Hold>;

// Whether it is the prompt's fault, not that of a field that all prompts share.
bool IsOfPrompt(const Status& failure) {
  const std::string_view field = failure.field();
  return field.empty() || field == "prompt" || field == "input" ||
         failure.api_code() == std::string_view("context_length_exceeded");
}

// A failure of choice `i` of a request with several prompts says which of them is at fault.
Status OfPrompt(const Status& failure, size_t i, size_t choices, int n_of_each) {
  const auto n = static_cast<size_t>(n_of_each);
  const bool tells = failure.code() == StatusCode::kInvalidArgument && IsOfPrompt(failure);
  if (!tells || choices == n) return failure;
  Status named =
      InvalidArgument(fmt::format("at index {}: {}", i / n, failure.message()), failure.field());
  named.set_api_code(failure.api_code());
  return named;
}

// Takes the choices that ended, and what is held for their memory. True if all have, or one has
// failed, which ends the wait.
bool CollectEnded(AnswerSource* source, int n, std::vector<api::ChoiceOutput>* choices,
                  Holds* holds, Status* failure) {
  bool all = true;
  for (size_t i = 0; i < source->size(); ++i) {
    if (source->ended(i)) continue;
    if (!source->Look(i).ended) {
      all = false;
      continue;
    }
    AnswerSource::Output output = source->Take(i);
    *failure = OfPrompt(EndStatus(*output.end), i, source->size(), n);
    if (!failure->ok()) return true;
    if (output.whole) {
      (*choices)[i] = *std::move(output.whole);
      continue;
    }
    Delta all;
    if (!output.deltas.empty()) {
      holds->push_back(std::move(output.held));
      all = std::move(output.deltas.front());
    }
    (*choices)[i] = OutputOf(std::move(all), output.end->finish);
  }
  return all;
}

// The approximate number of values in the answer's log-probabilities.
size_t CountLogprobs(const std::vector<api::ChoiceOutput>& choices) {
  size_t count = 0;
  for (const api::ChoiceOutput& choice : choices) {
    for (const OutputToken& token : choice.tokens) count += 1 + token.top_logprobs.size();
    for (const OutputToken& token : choice.prompt_tokens) count += 1 + token.top_logprobs.size();
  }
  return count;
}

// Where the size of the model's embeddings was not known before.
Status CheckDimensions(int32_t dimensions, const std::vector<api::ChoiceOutput>& choices) {
  for (const api::ChoiceOutput& choice : choices) {
    if (static_cast<size_t>(dimensions) > choice.embedding.size()) {
      return FewerDimensions(dimensions, choice.embedding.size());
    }
  }
  return {};
}

// The bytes of the texts and the numbers that were computed.
size_t CountText(const std::vector<api::ChoiceOutput>& choices) {
  size_t bytes = 0;
  for (const api::ChoiceOutput& choice : choices) {
    bytes += choice.text.size() + choice.reasoning.size() + choice.embedding.size() * 14;
    for (const ToolCall& call : choice.tool_calls) bytes += base::TextBytes(call);
  }
  return bytes;
}

}  // namespace

AnswerSender::AnswerSender(std::shared_ptr<http::Exchange> exchange, ServerContext* context,
                           std::shared_ptr<api::ApiFormat> format,
                           std::unique_ptr<AnswerSource> source, ShownPrompts shown)
    : exchange_(std::move(exchange)),
      stream_(exchange_->stream),
      http_(exchange_->request),
      context_(context),
      format_(std::move(format)),
      source_(std::move(source)),
      shown_(std::move(shown)) {}

asio::awaitable<http::Sent> AnswerSender::Run(bool streams) {
  http::Sent sent;
  Status failure;
  try {
    // No conditional operator: GCC 12 miscompiles a co_await in one.
    if (streams) {
      sent = co_await SendStream();
    } else {
      sent = co_await SendWhole();
    }
    NoteOutcome();
  } catch (...) {
    failure = http::StatusFromException();
    NoteOutcome();
  }
  source_->Cancel();
  if (!failure.ok() && stream_began_) {
    sent = co_await SendStreamError(failure);
  } else if (!failure.ok()) {
    http::HttpReply reply = context_->Rejection(failure, http_.caller.tenant);
    sent = co_await exchange_->Send(std::move(reply));
  }
  co_return sent;
}

void AnswerSender::NoteOutcome() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  http::AccessRecord& record = exchange_->record;
  for (size_t i = 0; i < source_->size(); ++i) {
    const AnswerFacts known = source_->facts(i);
    if (!known.admitted) continue;
    if (!record.tokens) record.tokens.emplace();
    // Choices of one prompt share it.
    if (i % static_cast<size_t>(format_->request()->n) == 0) {
      record.tokens->in += known.prompt_tokens;
      record.tokens->cached += known.cached_tokens;
    }
    record.tokens->out += known.generated;
    if (i > 0) continue;
    if (known.queue) record.queue_ms = Milliseconds(*known.queue).count();
    if (known.first) record.ttft_ms = Milliseconds(*known.first).count();
  }
}

http::HttpReply AnswerSender::FailureReply(const Status& failure) const {
  const api::Keeping& keeping = format_->request()->keeping;
  http::HttpReply reply = context_->Rejection(
      AboutHistory(failure, keeping.previous, keeping.conversation), http_.caller.tenant);
  // OpenAI's clients retry after a 503, which is right of a server that stops, but would undo an
  // admin's cancel, and of what a field asks for too much it would be the same again.
  const bool same = failure.code() == StatusCode::kUnavailable && !failure.field().empty();
  if (same || (failure.code() == StatusCode::kCancelled && context_->http.accepting())) {
    reply.headers.emplace_back("x-should-retry", "false");
  }
  if (reply.status == 429) {
    for (auto& header : context_->key_limits.Headers(http_.caller.tenant)) {
      reply.headers.push_back(std::move(header));
    }
  }
  return reply;
}

http::HttpHeaders AnswerSender::AnswerHeaders() {
  http::HttpHeaders headers = context_->key_limits.Headers(http_.caller.tenant);
  if (const std::optional<int32_t> position = source_->queue_position()) {
    headers.emplace_back("x-ropeway-queue-position", std::to_string(*position));
  }
  return headers;
}

bool AnswerSender::AllAdmitted(Status* failure) {
  bool all = true;
  for (size_t i = 0; i < source_->size(); ++i) {
    const AnswerSource::Progress progress = source_->Look(i);
    // Also after its admission: a status code tells clients more than a stream that breaks off.
    if (progress.failed) {
      *failure = OfPrompt(source_->Take(i).end->status, i, source_->size(), format_->request()->n);
      return false;
    }
    if (!progress.admitted && !progress.ended) all = false;
  }
  return all;
}

std::string AnswerSender::StreamError(const Status& failure) {
  api::ApiError error = api::ToApiError(failure);
  error.request_id = http_.framing.request_id;
  exchange_->Note(error);
  return format_->StreamError(error);
}

bool AnswerSender::AppendOutput(std::string* bytes) {
  bool all_ended = true;
  for (size_t i = 0; i < source_->size(); ++i) {
    if (source_->ended(i)) continue;
    AnswerSource::Output output = source_->Take(i);
    for (Delta& delta : output.deltas) {
      http::AppendChunk(format_->OnDelta(i, std::move(delta)), http_.framing, bytes);
    }
    if (!output.end) {
      all_ended = false;
      continue;
    }
    if (output.breaks_off) {
      stream_->Close();
      return true;
    }
    const Status status = EndStatus(*output.end);
    if (!status.ok()) {
      http::AppendChunk(StreamError(status), http_.framing, bytes);
      http::AppendLastChunk(http_.framing, bytes);
      return true;
    }
    http::AppendChunk(format_->OnEnd(i, output.end->finish), http_.framing, bytes);
  }
  if (all_ended) {
    http::AppendChunk(format_->Done(), http_.framing, bytes);
    http::AppendLastChunk(http_.framing, bytes);
  }
  return all_ended;
}

asio::awaitable<http::Sent> AnswerSender::SendStreamError(Status status) {
  std::string bytes;
  http::AppendChunk(StreamError(status), http_.framing, &bytes);
  http::AppendLastChunk(http_.framing, &bytes);
  co_await stream_->Write(std::move(bytes));
  co_return http::Sent{.status = 200, .keep_alive = false};
}

asio::awaitable<StatusOr<std::string>> AnswerSender::WriteWhole(
    std::shared_ptr<const std::vector<api::ChoiceOutput>> choices) {
  const bool is_short = CountLogprobs(*choices) <= kMaxInlineLogprobs &&
                        CountText(*choices) + shown_.bytes <= kMaxInlineText;
  if (is_short) co_return format_->Whole(*choices);
  std::function<std::string()> write = [this, choices] { return format_->Whole(*choices); };
  StatusOr<std::string> written = co_await OnHelper(std::move(write));
  co_return written;
}

asio::awaitable<StatusOr<std::string>> AnswerSender::OnHelper(std::function<std::string()> write) {
  while (true) {
    HelperWork work = [self = shared_from_this(), write]() -> StatusOr<std::string> {
      return write();
    };
    base::Flow flow = http::FlowOf(http_.caller);
    StatusOr<std::string> written =
        co_await context_->RunOnHelper(std::move(flow), stream_, std::move(work));
    const bool full = written.status().code() == StatusCode::kResourceExhausted;
    if (!full || stream_->gone()) co_return written;
    co_await stream_->Wait(std::chrono::steady_clock::now() + kHelperPause);
  }
}

asio::awaitable<http::Sent> AnswerSender::SendWhole() {
  auto choices = std::make_shared<std::vector<api::ChoiceOutput>>(source_->size());
  Holds holds;
  Status failure;
  while (!CollectEnded(source_.get(), format_->request()->n, choices.get(), &holds, &failure)) {
    if (stream_->gone()) co_return http::Sent{};
    const http::SocketStream::Deadline again = source_->Advance();
    co_await stream_->Wait(again);
  }
  if (failure.ok()) failure = CheckDimensions(format_->request()->dimensions, *choices);
  if (source_->cut()) context_->http.metrics.CountCutAnswer();
  http::HttpReply reply;
  if (failure.ok()) {
    StatusOr<std::string> body = co_await WriteWhole(std::move(choices));
    if (stream_->gone()) co_return http::Sent{};
    holds.clear();
    shown_.written.Release();
    // The vectors are gone; prompts are still there.
    if (format_->request()->request.embedding) shown_.texts.Release();
    failure = body.status();
    if (failure.ok()) reply.body = *std::move(body);
  }
  if (failure.ok()) {
    reply.headers = AnswerHeaders();
  } else {
    reply = FailureReply(failure);
  }
  const http::Sent sent = co_await exchange_->Send(std::move(reply));
  co_return sent;
}

asio::awaitable<http::Sent> AnswerSender::SendStream() {
  if (http_.framing.http_1_0)
    http_.framing.keep_alive = false;  // Only the connection's end ends the body.
  http::Sent sent;
  Status failure;
  while (!AllAdmitted(&failure)) {
    if (!failure.ok()) {
      http::HttpReply reply = FailureReply(failure);
      sent = co_await exchange_->Send(std::move(reply));
      co_return sent;
    }
    if (stream_->gone()) co_return http::Sent{};
    co_await stream_->Wait(Never());
  }
  format_->OnAdmitted(source_->facts(0).prompt_tokens);
  StatusOr<std::string> begin = std::string();
  if (shown_.bytes <= kMaxInlineText) {
    begin = format_->Begin();
  } else {
    std::function<std::string()> write = [this] { return format_->Begin(); };
    begin = co_await OnHelper(std::move(write));
  }
  if (stream_->gone()) co_return http::Sent{};
  if (!begin.ok()) {
    http::HttpReply reply = FailureReply(begin.status());
    sent = co_await exchange_->Send(std::move(reply));
    co_return sent;
  }
  std::string bytes = exchange_->StreamHead(format_->stream_content_type(), AnswerHeaders());
  http::AppendChunk(*begin, http_.framing, &bytes);
  begin = std::string();
  shown_.written.Release();
  stream_began_ = true;
  http::SocketStream::Deadline deadline = Never();  // For the next bytes; set by the first write.
  sent.status = 200;
  while (true) {
    const bool ended = AppendOutput(&bytes);
    bool written = true;
    if (!bytes.empty()) {
      base::SharedBudget::Hold hold;
      written = context_->http.ChargeAnswer(http_.caller.tenant, bytes.capacity(), &hold);
      if (written) {
        std::string next = std::exchange(bytes, {});
        written = co_await stream_->Write(std::move(next));
      }
      deadline = KeepAliveDeadline(*format_, context_->limits());
    }
    if (written && ended) {
      sent.keep_alive = http_.framing.keep_alive;
      co_return sent;
    }
    if (!written) stream_->Close();
    if (stream_->gone()) co_return http::Sent{};
    co_await stream_->Wait(deadline);
    if (std::chrono::steady_clock::now() >= deadline) {
      http::AppendChunk(format_->KeepAlive(), http_.framing, &bytes);
    }
  }
}

}  // namespace ropeway::server
