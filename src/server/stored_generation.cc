// Generation, of answers that are stored.
#include <chrono>
#include <ctime>
#include <utility>

#include "server/generation.h"

namespace ropeway::server {
namespace {

namespace asio = boost::asio;

// An answer in the background is admitted, or rejected, in milliseconds. Where that takes longer
// its client gets its id meanwhile.
constexpr std::chrono::milliseconds kAdmissionPatience{500};

// What a server without a store answers to a request that needs one.
Status NoStore(const api::Keeping& keeping) {
  const char* field = nullptr;
  if (keeping.background) {
    field = "background";
  } else if (!keeping.previous.empty()) {
    field = kPrevious;
  } else if (!keeping.conversation.empty()) {
    field = kConversation;
  } else if (keeping.stores_unasked && keeping.store.value_or(false)) {
    field = "store";
  }
  if (field == nullptr) return {};
  Status none(StatusCode::kUnavailable,
              std::string("'") + field +
                  "' needs a server that stores answers: start it with --state-path.",
              field);
  none.set_api_code(api::kNoStore);
  return none;
}

// What needs the answer to be stored; null: nothing.
const char* NeedsStore(const api::Keeping& keeping) {
  if (keeping.background) return "background";
  return keeping.conversation.empty() ? nullptr : kConversation;
}

StoredRun::WakeFn WakeOf(const std::shared_ptr<http::SocketStream>& stream) {
  return [weak = std::weak_ptr<http::SocketStream>(stream)] {
    if (const std::shared_ptr<http::SocketStream> alive = weak.lock()) alive->PostSignal();
  };
}

}  // namespace

Status Generation::ReadKeeping() {
  const api::Keeping& keeping = format_->request()->keeping;
  if (context_->stored == nullptr) return NoStore(keeping);
  keeps_ = keeping.store.value_or(keeping.stores_unasked || keeping.background);
  if (!keeping.previous.empty() && !keeping.conversation.empty()) {
    return InvalidArgument(
        "'previous_response_id' and 'conversation' exclude each other: give one of them.",
        kPrevious);
  }
  const char* const needs = NeedsStore(keeping);
  if (!keeps_ && needs != nullptr) {
    return InvalidArgument(
        std::string("'") + needs + "' needs the answer to be stored, but 'store' is false.", needs);
  }
  return {};
}

asio::awaitable<Status> Generation::Recall(http::IoTurns::Turn* turn) {
  const api::Keeping& keeping = format_->request()->keeping;
  const std::string& tenant = http_.caller.tenant;
  if (keeping.previous.empty() && keeping.conversation.empty()) co_return Status();
  if (!keeping.conversation.empty()) {
    StatusOr<StoredAnswers::ConversationHold> hold =
        context_->stored->HoldConversation(tenant, keeping.conversation);
    if (!hold.ok()) co_return hold.status();
    conversation_ = *std::move(hold);
  }
  turn->End();
  HelperWork work = [self = shared_from_this()]() -> StatusOr<std::string> {
    const std::string& owner = self->http_.caller.tenant;
    const StatusOr<Items> before =
        self->context_->stored->History(owner, self->format_->request()->keeping);
    if (!before.ok()) return before.status();
    size_t bytes = 0;
    for (const std::string& item : *before) bytes += item.size();
    if (!self->context_->http.ChargeAnswer(owner, bytes, &self->history_)) {
      return http::TooManyAnswers();
    }
    auto* const items = dynamic_cast<api::ItemFormat*>(self->format_.get());
    if (items == nullptr) return Status(StatusCode::kInternal, "The dialect has no items.");
    Status continued = items->Continue(*before);
    if (!continued.ok()) return continued;
    return std::string();
  };
  base::Flow flow = http::FlowOf(http_.caller);
  const StatusOr<std::string> done =
      co_await context_->RunOnHelper(std::move(flow), stream_, std::move(work));
  if (stream_->gone()) co_return done.status();
  base::Flow again = http::FlowOf(http_.caller);
  co_await exchange_->turns->Begin(std::move(again), stream_, turn);
  co_return done.status();
}

StatusOr<std::shared_ptr<StoredRun>> Generation::BeginStored(std::vector<KeyTicket> tickets) {
  api::ApiRequest* const api = format_->request();
  StoredRequest request;
  request.tenant = api->request.tenant;
  request.body = std::move(body_);
  head_.id = DrawId("");
  head_.created = static_cast<int64_t>(std::time(nullptr));
  head_.priority = api->request.priority;
  head_.stored = true;
  request.id = std::string(format_->id_prefix()) + head_.id;
  request.head = head_;
  DrawSeed(&api->request);
  request.seed = *api->request.sampling.seed;
  request.background = api->keeping.background;
  request.stream = api->stream;
  request.weight = api->request.tenant_weight;
  request.cache_scope = api->request.cache_scope;
  request.previous = api->keeping.previous;
  request.conversation = api->keeping.conversation;
  format_->Start(std::move(head_));
  return context_->stored->Begin(std::move(request), format_.get(), std::move(tickets),
                                 std::move(conversation_));
}

asio::awaitable<http::Sent> Generation::SendStored() {
  const bool streams = format_->request()->stream;
  exchange_->record.answer_id = run_->request().id;
  auto watcher = std::make_unique<RunWatcher>(run_, !streams, true, WakeOf(stream_));
  http::Sent sent;
  if (run_->request().background && !streams) {
    sent = co_await SendQueued(std::move(watcher));
  } else {
    auto sender = std::make_shared<AnswerSender>(exchange_, context_, format_, std::move(watcher),
                                                 std::move(shown_));
    sent = co_await sender->Run(streams);
  }
  co_return sent;
}

asio::awaitable<http::Sent> Generation::SendQueued(std::unique_ptr<RunWatcher> watcher) {
  http::SocketStream::Deadline patience = std::chrono::steady_clock::now() + kAdmissionPatience;
  const auto known = [&] { return watcher->Look(0).ended || run_->recorded(); };
  while (!known()) {
    if (stream_->gone()) co_return http::Sent{};
    co_await stream_->Wait(patience);
    if (std::chrono::steady_clock::now() < patience) continue;
    patience = http::SocketStream::Deadline::max();
    run_->RecordNow();
  }
  http::HttpReply reply;
  if (run_->recorded()) {
    reply.headers = context_->key_limits.Headers(http_.caller.tenant);
    reply.body = format_->Pending(api::AnswerState::kQueued, nullptr);
  } else {
    const AnswerSource::Output output = watcher->Take(0);
    reply = context_->Rejection(
        output.end ? output.end->status : Status(StatusCode::kInternal, "The request failed."),
        http_.caller.tenant);
  }
  watcher->Cancel();
  const http::Sent sent = co_await exchange_->Send(std::move(reply));
  co_return sent;
}

// --- Answers that are read again

asio::awaitable<http::Sent> SendWatched(std::shared_ptr<http::Exchange> exchange,
                                        ServerContext* context, StoredAnswers::Watched watched) {
  exchange->stream->set_answering(true);
  auto watcher = std::make_unique<RunWatcher>(watched.run, false, false, WakeOf(exchange->stream));
  auto sender = std::make_shared<AnswerSender>(exchange, context, std::move(watched.format),
                                               std::move(watcher));
  const http::Sent sent = co_await sender->Run(true);
  exchange->stream->set_answering(false);
  co_return sent;
}

}  // namespace ropeway::server
