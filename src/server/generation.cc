#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <utility>

#include "base/chat_size.h"
#include "server/handlers.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;

// The least share of a stream's bound that each of many choices gets.
constexpr size_t kLeastChoiceBytes = size_t{128} << 10;

// Bound on the prompts of one request's choices together: each choice has its own copy.
constexpr size_t kMaxPromptBytes = size_t{64} << 20;

// Bound on the log-probabilities that several choices of one request report together; each takes
// some 50 bytes until the answer is sent. The model's context alone bounds a single choice.
constexpr size_t kMaxLogprobsTogether = size_t{4} << 20;

StatusOr<std::string> PromptText(const api::Prompt& prompt, const service::FrontDesk& backend) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  StatusOr<std::string> text = backend.Detokenize(std::get<std::vector<TokenId>>(prompt));
  if (text.ok() || text.status().code() != StatusCode::kInvalidArgument) return text;
  return InvalidArgument(text.status().message(), "prompt");  // The field that this request has.
}

// An upper bound on the tokens of an encoded prompt.
size_t MostTokens(const api::Prompt& prompt, size_t max_model_len) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return ids->size();
  const auto* text = std::get_if<std::string>(&prompt);
  return text == nullptr ? max_model_len : std::min(text->size() + 1, max_model_len);
}

// An upper bound on the log-probabilities that the answer holds at one time: a stream drops those
// of the output as it sends them.
size_t MostLogprobs(const api::ApiRequest& api, size_t max_model_len) {
  const Request& request = api.request;
  size_t count = 0;
  if (request.prompt_logprobs) {
    const auto each =
        static_cast<size_t>(api.n) * (1 + static_cast<size_t>(*request.prompt_logprobs));
    for (const api::Prompt& prompt : api.prompts) count += MostTokens(prompt, max_model_len) * each;
  }
  if (request.logprobs && !api.stream) {
    const auto most = static_cast<size_t>(request.max_tokens.value_or(INT32_MAX));
    count += api.choices() * std::min(most, max_model_len) *
             (1 + static_cast<size_t>(*request.logprobs));
  }
  return count;
}

Status CheckLogprobs(const api::ApiRequest& api, const service::ModelInfo& model) {
  const size_t most = MostLogprobs(api, static_cast<size_t>(model.max_model_len));
  if (api.choices() == 1 || most <= kMaxLogprobsTogether) return {};
  return InvalidArgument(
      fmt::format("The {} choices of this request could report {} log-probabilities; at most {} "
                  "are allowed.",
                  api.choices(), most, kMaxLogprobsTogether),
      "logprobs");
}

Status CheckCopies(const api::ApiRequest& api, size_t body_bytes) {
  if (api.n == 1 || body_bytes * static_cast<size_t>(api.n) <= kMaxPromptBytes) return {};
  return InvalidArgument(
      fmt::format(
          "'n' times the size of the body must be at most {} bytes, but is {} times {} bytes.",
          kMaxPromptBytes, api.n, body_bytes),
      "n");
}

// `embedding_size`: 0 where it is not known.
Status CheckDimensions(const api::ApiRequest& api, int32_t embedding_size) {
  if (embedding_size == 0 || api.dimensions <= embedding_size) return {};
  return FewerDimensions(api.dimensions, static_cast<size_t>(embedding_size));
}

// What the answer's embeddings take in memory; 0 where the model's size is not known, and they are
// charged as they come.
size_t EmbeddingBytes(const api::ApiRequest& api, int32_t embedding_size) {
  const auto numbers = static_cast<size_t>(embedding_size);
  return api.request.embedding ? api.choices() * numbers * sizeof(float) : 0;
}

// `max_model_len`: 0 where it is not known.
KeyDemand DemandOf(const api::ApiRequest& api, int64_t max_model_len) {
  KeyDemand demand;
  demand.prompts = api.prompts.size();
  demand.n = static_cast<size_t>(api.n);
  demand.as_one = api.request.embedding.has_value();
  int64_t shortest = INT32_MAX;
  const bool cut = max_model_len > 0 && demand.as_one && api.request.embedding->truncate;
  for (const api::Prompt& prompt : api.prompts) {
    auto tokens = static_cast<int64_t>(base::EstimatedTokens(prompt));
    if (cut) tokens = std::min(tokens, max_model_len);
    demand.prompt_tokens += tokens;
    shortest = std::min(shortest, tokens);
  }
  demand.max_tokens = api.request.max_tokens.value_or(INT32_MAX);
  // The engine lowers it to what the prompt leaves of the context.
  if (max_model_len > 0) {
    demand.max_tokens = std::min(demand.max_tokens, std::max<int64_t>(0, max_model_len - shortest));
  }
  const size_t resumed = api.request.resume_ids.size();
  demand.max_tokens -= static_cast<int64_t>(resumed);
  // The prompt may be shorter than it seems.
  if (!demand.as_one) demand.max_tokens = std::max<int64_t>(1, demand.max_tokens);
  if (resumed > 0) demand.prompt_tokens = 0;  // Where it began, the prompt was paid for.
  return demand;
}

ServerSink::WakeFn WakeOf(const std::shared_ptr<http::SocketStream>& stream,
                          ServerContext* context) {
  using Wake = ServerSink::Wake;
  return [weak = std::weak_ptr<http::SocketStream>(stream), context](Wake why) {
    if (why == Wake::kSlowReader) context->http.metrics.CountSlowReader();
    if (why == Wake::kOverBudget) context->http.metrics.CountCutAnswer();
    std::shared_ptr<http::SocketStream> alive = weak.lock();
    if (!alive) return;
    why == Wake::kNews ? alive->PostSignal() : alive->PostClose();
  };
}

http::HttpReply AboveCeiling(const api::ApiRequest& api, Priority ceiling) {
  const std::string message =
      fmt::format("'{}' asks for the class {}, but this API key may ask for {} at most.",
                  api.priority_field, PriorityName(*api.priority), PriorityName(ceiling));
  return http::ErrorReply({403, message, "invalid_request_error", api.priority_field, "forbidden"});
}

http::HttpReply NotAGateway() {
  return http::ErrorReply(
      {403,
       "'ropeway_gateway' needs an API key with 'gateway = true' in this server's API key file.",
       "invalid_request_error", "ropeway_gateway", "forbidden"});
}

// Puts in the place of `caller`, a gateway, the tenant for which it sends the request, if it names
// one.
void ActFor(const api::GatewayFields& gateway, http::Caller* caller) {
  if (gateway.weight) caller->weight = *gateway.weight;
  if (gateway.tenant.empty()) return;
  caller->tenant = gateway.tenant;
  caller->cache_scope = gateway.cache_scope;
}

http::HttpReply LimitReached(const KeyLimits::Grant& grant, const http::Caller& caller,
                             const ServerContext& context) {
  if (grant.status.code() != StatusCode::kResourceExhausted) {
    return context.Rejection(grant.status, caller.tenant);
  }
  http::HttpReply reply =
      http::ErrorReply({429, grant.status.message(), grant.limit, "", "rate_limit_exceeded"});
  reply.headers = context.key_limits.Headers(caller.tenant);
  const int seconds = grant.retry_after_seconds > 0
                          ? grant.retry_after_seconds
                          : context.backend->RetryAfterSeconds(caller.tenant);
  reply.headers.emplace_back("Retry-After", std::to_string(seconds));
  return reply;
}

}  // namespace

Generation::Generation(std::shared_ptr<http::Exchange> exchange, ServerContext* context,
                       api::ApiFormatMaker make_format)
    : exchange_(std::move(exchange)),
      stream_(exchange_->stream),
      http_(exchange_->request),
      context_(context),
      format_(make_format()) {}

asio::awaitable<http::Sent> Generation::Run() {
  http::Sent sent;
  Status failure;
  try {
    sent = co_await TryRun();
  } catch (...) {
    failure = http::StatusFromException();
  }
  if (!failure.ok()) {
    http::HttpReply reply = context_->Rejection(failure, http_.caller.tenant);
    sent = co_await exchange_->Send(std::move(reply));
  }
  co_return sent;
}

asio::awaitable<http::Sent> Generation::TryRun() {
  Status status;
  http::IoTurns::Turn turn;
  if (!context_->http.accepting()) {
    status = {StatusCode::kUnavailable,
              std::string(NotAccepting(context_->http.state)) + " No new requests are accepted."};
  } else {
    status = co_await ReadBody(&turn);
    // A helper may still read the body.
    if (stream_->gone()) co_return http::Sent{};
    context_->TellIgnored(format_->request()->ignored, exchange_.get());
    // The name that the client asked for, where no model was found. The log shows 128 bytes.
    exchange_->record.model.assign(format_->request()->request.model, 0, 129);
    if (status.ok()) status = co_await Recall(&turn);
    if (stream_->gone()) co_return http::Sent{};
  }
  std::optional<http::HttpReply> rejection;  // Or another whole reply.
  std::unique_ptr<AnswerSource> source;
  if (status.ok() && format_->request()->prompts.empty()) {
    rejection = AnswerAtOnce();
  } else if (status.ok()) {
    std::vector<KeyTicket> tickets;
    rejection = ApplyKey(&tickets);
    if (!rejection && keeps_) {
      StatusOr<std::shared_ptr<StoredRun>> begun = BeginStored(std::move(tickets));
      status = begun.status();
      if (status.ok()) run_ = *std::move(begun);
    } else if (!rejection) {
      StatusOr<std::unique_ptr<AnswerSource>> submitted = Submit(std::move(tickets));
      status = submitted.status();
      if (status.ok()) source = *std::move(submitted);
    }
  }
  if (!status.ok()) {
    const api::Keeping& keeping = format_->request()->keeping;
    status = AboutHistory(std::move(status), keeping.previous, keeping.conversation);
    rejection = context_->Rejection(status, http_.caller.tenant);
    // It would be the same again: OpenAI's clients retry other 503s.
    if (rejection->status == 503 && !status.field().empty() &&
        status.api_code() != std::string_view(api::kNoStore)) {  // That has it.
      rejection->headers.emplace_back("x-should-retry", "false");
    }
  }
  turn.End();
  http::Sent sent;
  if (rejection) {
    sent = co_await exchange_->Send(*std::move(rejection));
  } else if (run_ != nullptr) {
    sent = co_await SendStored();
  } else {
    const bool streams = format_->request()->stream;
    auto sender = std::make_shared<AnswerSender>(exchange_, context_, format_, std::move(source),
                                                 std::move(shown_));
    sent = co_await sender->Run(streams);
  }
  http_.body_hold.Release();
  co_return sent;
}

asio::awaitable<Status> Generation::ReadBody(http::IoTurns::Turn* turn) {
  Status status;
  const bool is_small = http_.body.size() <= context_->limits().max_inline_body_bytes;
  if (!is_small) {
    HelperWork work = [self = shared_from_this()]() -> std::optional<StatusOr<std::string>> {
      const StatusOr<bool> done = self->Prepare();
      if (!done.ok()) return done.status();
      if (!*done) return std::nullopt;
      return std::string();
    };
    base::Flow flow = http::FlowOf(http_.caller);
    const StatusOr<std::string> done =
        co_await context_->RunOnHelper(std::move(flow), stream_, std::move(work));
    status = done.status();
    if (stream_->gone()) co_return status;
  }
  // A large body too: its prompts are copied for each choice.
  base::Flow flow = http::FlowOf(http_.caller);
  co_await exchange_->turns->Begin(std::move(flow), stream_, turn);
  if (stream_->gone()) co_return status;
  for (bool done = !is_small; !done && status.ok();) {
    const StatusOr<bool> prepared = Prepare();
    status = prepared.status();
    done = status.ok() && *prepared;
  }
  // The record takes it.
  if (keeps_) body_ = std::move(http_.body);
  http_.body = std::string();
  // Inputs to embed may wait here for each other.
  if (!format_->request()->request.embedding) http_.body_hold.Release();
  co_return status;
}

StatusOr<bool> Generation::Prepare() {
  if (!texts_) {
    if (Status status = ParseBody(); !status.ok()) return status;
    texts_.emplace(context_->backend, format_->request());
  }
  const StatusOr<bool> encoded = texts_->Step();
  if (!encoded.ok() || !*encoded) return encoded;
  if (Status status = ShowPrompts(); !status.ok()) return status;
  return true;
}

Status Generation::ParseBody() {
  format_->request()->request.sampling = context_->sampling;
  Status status = format_->Parse(http_.body, context_->limits().body);
  if (!status.ok()) return status;
  const api::ApiRequest& api = *format_->request();
  status = CheckCopies(api, http_.body.size());
  if (!status.ok()) return status;
  StatusOr<service::ModelInfo> model = ModelToAsk(api.request.model, http_.caller, *context_);
  if (!model.ok() && !api.other_model.empty()) {
    StatusOr<service::ModelInfo> other = ModelToAsk(api.other_model, http_.caller, *context_);
    if (other.ok()) model = std::move(other);
  }
  if (!model.ok()) return model.status();
  format_->request()->request.model = model->id;
  status = CheckLogprobs(api, *model);
  if (status.ok()) status = CheckDimensions(api, model->embedding_size);
  if (!status.ok()) return status;
  status = ReadKeeping();
  if (!status.ok()) return status;
  head_.model = model->id;
  head_.fingerprint = model->fingerprint;
  max_model_len_ = model->max_model_len;
  embedding_size_ = model->embedding_size;
  return {};
}

Status Generation::ShowPrompts() {
  const api::ApiRequest& api = *format_->request();
  size_t bytes = api.repeated_bytes + EmbeddingBytes(api, embedding_size_);
  if (!api.shows_prompts && bytes <= http::kFreeAnswerBytes) return {};
  for (const api::Prompt& prompt : api.prompts) {
    if (!api.shows_prompts) break;
    StatusOr<std::string> text = PromptText(prompt, *context_->backend);
    if (!text.ok() && api.hides_unknown_prompts &&
        text.status().code() == StatusCode::kUnimplemented) {
      text = std::string();
    }
    if (!text.ok()) return text.status();
    bytes += text->size();
    head_.prompt_texts.push_back(*std::move(text));
  }
  // Each choice shows its prompt, the answer what it repeats of the body, and while the answer is
  // written it is copied. A small answer is free.
  shown_.bytes = bytes * static_cast<size_t>(api.n);
  const size_t copies = api.request.embedding ? kEmbeddingNumberBytes / sizeof(float) - 1 : 2;
  const size_t written = shown_.bytes > http::kFreeAnswerBytes ? copies * shown_.bytes : 0;
  const std::string& tenant = http_.caller.tenant;
  const bool good = context_->http.ChargeAnswer(tenant, bytes, &shown_.texts) &&
                    context_->http.ChargeAnswer(tenant, written, &shown_.written);
  if (good) return {};
  return api.request.embedding ? TooManyEmbeddings() : http::TooManyAnswers();
}

std::optional<http::HttpReply> Generation::ApplyKey(std::vector<KeyTicket>* tickets) {
  api::ApiRequest* const api = format_->request();
  http::Caller& caller = http_.caller;
  if (api->priority && *api->priority < caller.priority_ceiling) {
    return AboveCeiling(*api, caller.priority_ceiling);
  }
  if (api->gateway && !caller.gateway) return NotAGateway();
  // The limits of a tenant that has none here are the gateway's.
  std::string account = caller.tenant;
  if (api->gateway) {
    ActFor(*api->gateway, &caller);
    if (context_->key_limits.Has(caller.tenant)) account = caller.tenant;
  }
  Request& request = api->request;
  request.tenant = caller.tenant;
  request.cache_scope = caller.cache_scope;
  // No client waits for what is in the background.
  const Priority unasked = api->keeping.background ? Priority::kLow : caller.priority;
  request.priority = api->priority.value_or(unasked);
  exchange_->record.priority = PriorityName(request.priority);
  request.tenant_weight = caller.weight;
  KeyLimits::Grant grant = context_->key_limits.Take(account, DemandOf(*api, max_model_len_));
  if (!grant.status.ok()) return LimitReached(grant, caller, *context_);
  *tickets = std::move(grant.tickets);
  return std::nullopt;
}

void Generation::Start() {
  head_.id = http_.id;
  head_.created = static_cast<int64_t>(std::time(nullptr));
  head_.priority = format_->request()->request.priority;
  format_->Start(std::move(head_));
}

http::HttpReply Generation::AnswerAtOnce() {
  Start();
  http::HttpReply reply;
  reply.body = format_->Whole({});
  return reply;
}

StatusOr<std::unique_ptr<AnswerSource>> Generation::Submit(std::vector<KeyTicket> tickets) {
  api::ApiRequest* const api = format_->request();
  Start();
  if (api->request.embedding) {
    InputFeed::Memory memory;
    if (embedding_size_ == 0) memory = {context_->http.answers, http_.caller.tenant};
    auto feed = std::make_unique<InputFeed>(context_->backend, FeedWindow(), std::move(memory),
                                            WakeOf(stream_, context_));
    Status begun = feed->Begin(api, std::move(tickets));
    if (!begun.ok()) return begun;
    return std::unique_ptr<AnswerSource>(std::move(feed));
  }
  auto submission = std::make_unique<Submission>(context_->backend);
  Status status = submission->Submit(api, std::move(tickets), Sinks());
  if (!status.ok()) return status;
  return std::unique_ptr<AnswerSource>(std::move(submission));
}

InputFeed::Window Generation::FeedWindow() const {
  InputFeed::Window window;
  const size_t replicas = std::clamp<size_t>(context_->backend->Backends().size(), 1, 8);
  window.most *= replicas;
  window.tokens *= static_cast<int64_t>(replicas);
  // A queue with fewer places would never take them at once.
  window.most = std::min(window.most, static_cast<size_t>(context_->limits().body.max_choices));
  return window;
}

Submission::SinkMaker Generation::Sinks() const {
  const api::ApiRequest& api = *format_->request();
  const ServerSink::WakeFn wake = WakeOf(stream_, context_);
  const std::shared_ptr<base::SharedBudget> answers = context_->http.answers;
  const std::string tenant = http_.caller.tenant;
  if (!api.stream) {
    const bool keep_tokens = api.request.logprobs.has_value() || api.keeps_tokens;
    return [=]() -> std::shared_ptr<ServerSink> {
      auto sink = std::make_shared<CollectorSink>(keep_tokens, wake);
      sink->SetBudget(answers, tenant);
      return sink;
    };
  }
  const ServerLimits& limits = context_->limits();
  const size_t share = limits.max_stream_bytes / api.choices();
  const size_t max_bytes = std::max(share, std::min(limits.max_stream_bytes, kLeastChoiceBytes));
  return [=, max_events = limits.max_stream_events]() -> std::shared_ptr<ServerSink> {
    auto sink = std::make_shared<StreamSink>(max_bytes, max_events, wake);
    sink->SetBudget(answers, tenant);
    return sink;
  };
}

namespace {

asio::awaitable<http::Sent> Generate(std::shared_ptr<http::Exchange> exchange,
                                     ServerContext* context, api::ApiFormatMaker make_format) {
  exchange->stream->set_answering(true);
  auto generation = std::make_shared<Generation>(exchange, context, make_format);
  const http::Sent sent = co_await generation->Run();
  exchange->stream->set_answering(false);
  co_return sent;
}

}  // namespace

http::Route::Handler Generates(ServerContext* context, api::ApiFormatMaker make_format) {
  return [=](std::shared_ptr<http::Exchange> exchange) {
    return Generate(std::move(exchange), context, make_format);
  };
}

}  // namespace ropeway::server
