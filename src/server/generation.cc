#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/collector_sink.h"
#include "server/event_writer.h"
#include "server/helper_pool.h"
#include "server/key_rights.h"
#include "server/openai_request.h"
#include "server/openai_response.h"
#include "server/plain_handlers.h"
#include "server/send_answer.h"
#include "server/sse_sink.h"
#include "server/submission.h"

namespace ropeway {
namespace {

namespace asio = boost::asio;

// A stream's share of its bound, where many choices share one connection.
constexpr size_t kLeastChoiceBytes = size_t{128} << 10;

// What the prompts of one request's choices may take together: each choice has its own copy.
constexpr size_t kMaxPromptBytes = size_t{64} << 20;

// What the choices of one request may report together; each takes some 50 bytes until the answer is
// sent. One choice is bounded by the model's context alone.
constexpr size_t kMaxLogprobsTogether = size_t{4} << 20;

// A request as far as its body alone decides it.
struct Prepared {
  ApiRequest api;
  ModelInfo model;
  std::vector<std::string> echo;  // The prompts' texts, where they are to be shown.
};
using PreparedPtr = std::unique_ptr<Prepared>;

StatusOr<std::string> PromptText(const Prompt& prompt, const Backend& backend) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  StatusOr<std::string> text = backend.Detokenize(std::get<std::vector<TokenId>>(prompt));
  if (text.ok() || text.status().code() != StatusCode::kInvalidArgument) return text;
  return InvalidArgument(text.status().message(), "prompt");  // The field that this request has.
}

// An upper bound on the tokens that a prompt becomes.
size_t MostTokens(const Prompt& prompt, size_t max_model_len) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return ids->size();
  const auto* text = std::get_if<std::string>(&prompt);
  return text == nullptr ? max_model_len : std::min(text->size() + 1, max_model_len);
}

// How many log-probabilities the answer may hold at one time: a stream drops those of the
// completion as it sends them.
size_t MostLogprobs(const ApiRequest& api, size_t max_model_len) {
  const Request& request = api.request;
  size_t count = 0;
  if (request.prompt_logprobs) {
    const auto each =
        static_cast<size_t>(api.n) * (1 + static_cast<size_t>(*request.prompt_logprobs));
    for (const Prompt& prompt : api.prompts) count += MostTokens(prompt, max_model_len) * each;
  }
  if (request.logprobs && !api.stream) {
    const auto most = static_cast<size_t>(request.max_tokens.value_or(INT32_MAX));
    count += api.choices() * std::min(most, max_model_len) *
             (1 + static_cast<size_t>(*request.logprobs));
  }
  return count;
}

Status CheckLogprobs(const ApiRequest& api, const ModelInfo& model) {
  const size_t most = MostLogprobs(api, static_cast<size_t>(model.max_model_len));
  if (api.choices() == 1 || most <= kMaxLogprobsTogether) return {};
  return InvalidArgument(
      fmt::format("{} choices with that many tokens could report {} log-probabilities; at most {} "
                  "are allowed.",
                  api.choices(), most, kMaxLogprobsTogether),
      "logprobs");
}

Status CheckCopies(const ApiRequest& api, size_t body_bytes) {
  if (api.n == 1 || body_bytes * static_cast<size_t>(api.n) <= kMaxPromptBytes) return {};
  return InvalidArgument(fmt::format("'n' is {}, but so many choices of a prompt in a body of {} "
                                     "bytes would take more than {} bytes.",
                                     api.n, body_bytes, kMaxPromptBytes),
                         "n");
}

// May take milliseconds per megabyte.
StatusOr<PreparedPtr> Prepare(const std::string& body, bool chat, const ServerLimits& limits,
                              const Backend& backend) {
  const JsonBounds bounds = {.max_depth = limits.max_json_depth,
                             .max_values = limits.max_json_values};
  StatusOr<ApiRequest> api = ParseApiRequest(body, chat, bounds, limits.max_choices);
  if (!api.ok()) return api.status();
  Status copies = CheckCopies(*api, body.size());
  if (!copies.ok()) return copies;
  auto prepared = std::make_unique<Prepared>();
  prepared->api = *std::move(api);
  StatusOr<ModelInfo> model = FindModel(prepared->api.request.model, backend);
  if (!model.ok()) return model.status();
  prepared->model = *std::move(model);
  Status logprobs = CheckLogprobs(prepared->api, prepared->model);
  if (!logprobs.ok()) return logprobs;
  if (!prepared->api.echo) return prepared;
  for (const Prompt& prompt : prepared->api.prompts) {
    StatusOr<std::string> text = PromptText(prompt, backend);
    if (!text.ok()) return text.status();
    prepared->echo.push_back(*std::move(text));
  }
  return prepared;
}

ServerSink::WakeFn WakeOf(const std::shared_ptr<SocketStream>& stream, ServerContext* context) {
  return [weak = std::weak_ptr<SocketStream>(stream), context](bool overflow) {
    if (overflow) context->metrics.CountSlowReader();
    std::shared_ptr<SocketStream> alive = weak.lock();
    if (!alive) return;
    overflow ? alive->PostClose() : alive->PostSignal();
  };
}

Submission::SinkMaker SinksFor(const ApiRequest& api, std::shared_ptr<SocketStream> stream,
                               ServerContext* context) {
  if (!api.stream) {
    const bool keep_tokens = api.request.logprobs.has_value();
    return [=]() -> std::shared_ptr<ServerSink> {
      return std::make_shared<CollectorSink>(keep_tokens, WakeOf(stream, context));
    };
  }
  const ServerLimits& limits = context->limits();
  const size_t share = limits.max_stream_bytes / api.choices();
  const size_t max_bytes = std::max(share, std::min(limits.max_stream_bytes, kLeastChoiceBytes));
  return [=, max_events = limits.max_stream_events]() -> std::shared_ptr<ServerSink> {
    return std::make_shared<SseSink>(max_bytes, max_events, WakeOf(stream, context));
  };
}

AnswerHead HeadOf(const Prepared& prepared, ServerContext* context) {
  const ApiRequest& api = prepared.api;
  AnswerHead head;
  head.id = context->NewId(api.chat ? "chatcmpl" : "cmpl");
  head.created = static_cast<int64_t>(std::time(nullptr));
  head.model = prepared.model.id;
  head.chat = api.chat;
  head.include_usage = api.include_usage;
  head.logprobs = api.request.logprobs.has_value();
  head.prompt_logprobs = api.prompt_logprobs;
  head.n = api.n;
  if (api.service_tier) head.service_tier = ServiceTierName(api.request.priority);
  head.echo = prepared.echo;
  return head;
}

// Reads the body: here, or on a helper thread where it is large.
asio::awaitable<StatusOr<PreparedPtr>> ReadBody(ServerContext* context, HttpRequest request,
                                                bool chat) {
  const auto prepare = [&request, context, chat]() -> StatusOr<PreparedPtr> {
    return Prepare(request.body, chat, context->limits(), *context->backend);
  };
  if (request.body.size() <= context->limits().max_inline_body_bytes) co_return prepare();
  std::function<StatusOr<PreparedPtr>()> work = prepare;
  StatusOr<PreparedPtr> prepared = co_await context->helpers.Run<PreparedPtr>(std::move(work));
  co_return prepared;
}

asio::awaitable<Sent> TryGenerate(std::shared_ptr<SocketStream> stream, ServerContext* context,
                                  HttpRequest request, bool chat, bool* began) {
  const Framing framing = request.framing;
  const Caller caller = std::move(request.caller);
  std::optional<HttpReply> refusal;
  const auto refuse = [&](const Status& status) {
    refusal = RefusalFor(status, *context->backend);
  };
  if (!context->accepting) {
    refuse({StatusCode::kUnavailable, "The server is stopping; no new request is accepted."});
  }
  Sent sent;
  Submission submission(context->backend);
  AnswerHead head;
  bool streamed = false;
  if (!refusal) {
    StatusOr<PreparedPtr> prepared = co_await ReadBody(context, std::move(request), chat);
    if (prepared.ok()) {
      ApiRequest& api = (*prepared)->api;
      std::vector<KeyTicket> tickets;
      refusal = ApplyKey(caller, context, &api, &tickets);
      if (!refusal) {
        head = HeadOf(**prepared, context);
        streamed = api.stream;
        const Submission::SinkMaker sinks = SinksFor(api, stream, context);
        const Status status = submission.Submit(std::move(api), std::move(tickets), sinks);
        if (!status.ok()) refuse(status);
      }
    } else {
      refuse(prepared.status());
    }
  }
  if (refusal) {
    sent = co_await SendReply(stream.get(), *std::move(refusal), framing);
  } else if (streamed) {
    sent = co_await SendStream(stream.get(), context, &submission, head, framing, began);
  } else {
    sent = co_await SendWhole(stream.get(), context, &submission, head, framing);
  }
  co_return sent;
}

}  // namespace

asio::awaitable<Sent> Generate(std::shared_ptr<SocketStream> stream, ServerContext* context,
                               HttpRequest request, bool chat) {
  const Framing framing = request.framing;
  Sent sent;
  Status failure;
  bool began = false;
  try {
    sent = co_await TryGenerate(stream, context, std::move(request), chat, &began);
  } catch (...) {
    failure = HelperPool::FromException();
  }
  if (failure.ok()) co_return sent;
  if (!began) {
    HttpReply reply = RefusalFor(failure, *context->backend);
    sent = co_await SendReply(stream.get(), std::move(reply), framing);
    co_return sent;
  }
  std::string bytes;
  AppendChunk(EventWriter::Error(failure), framing, &bytes);
  AppendLastChunk(framing, &bytes);
  co_await stream->Write(std::move(bytes));
  co_return Sent{.status = 200, .keep_alive = false};
}

}  // namespace ropeway
