#include "server/stored_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/random.h"
#include "http/http_reply.h"
#include "server/delta_merge.h"
#include "server/submission.h"

namespace ropeway::server {
namespace {

using api::AnswerState;
using Clock = std::chrono::steady_clock;

// How long the end waits for the answers that it parks.
constexpr std::chrono::seconds kParkPatience{10};

// What the bodies of answers that wait for room may take; one tenant alone has half.
constexpr int64_t kMostWaitingBytes = int64_t{512} << 20;

// What an answer's records take beside its body, about.
constexpr uint64_t kRecordBytes = 4096;

std::vector<std::shared_ptr<Sink>> SinksOf(const std::vector<SinkRequest>& requests) {
  std::vector<std::shared_ptr<Sink>> sinks;
  for (const SinkRequest& request : requests) sinks.push_back(request.sink);
  return sinks;
}

// The same as a rejection that comes later.
void Reject(const std::vector<std::shared_ptr<Sink>>& sinks, const Status& status) {
  for (const std::shared_ptr<Sink>& sink : sinks) sink->OnEnd(0, Outcome::Failed(status));
}

}  // namespace

// The conversations that are being changed.
class ConversationHolds {
 public:
  using Key = std::pair<std::string, std::string>;  // Tenant and id.

  static std::shared_ptr<void> Take(const std::shared_ptr<ConversationHolds>& holds, Key key) {
    const std::lock_guard lock(holds->mutex_);
    if (!holds->held_.emplace(key, "").second) return nullptr;
    // Any pointer that is not null.
    return {holds.get(), [holds, key = std::move(key)](void*) {
              const std::lock_guard release(holds->mutex_);
              holds->held_.erase(key);
            }};
  }

  // Says which answer a conversation that is held is held for.
  void Name(const Key& key, const std::string& answer) {
    const std::lock_guard lock(mutex_);
    if (const auto held = held_.find(key); held != held_.end()) held->second = answer;
  }
  // "": another request, or none.
  std::string HolderOf(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto held = held_.find(key);
    return held == held_.end() ? "" : held->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::string> held_;  // With the answer for which it is. GUARDED_BY(mutex_)
};

std::string DrawId(std::string_view prefix) {
  base::SystemRandom random;
  return fmt::format("{}{:016x}{:016x}", prefix, random.Next64(), random.Next64());
}

StoredAnswers::StoredAnswers(StoredAnswersOptions options, store::ObjectStore* store,
                             service::FrontDesk* backend)
    : answers_(options.answers),
      waiting_bytes_(std::make_shared<base::SharedBudget>(kMostWaitingBytes)),
      records_(std::move(options), store),
      store_(store),
      backend_(backend),
      inbox_(std::make_shared<RunInbox>()),
      holds_(std::make_shared<ConversationHolds>()),
      thread_([this] { Loop(); }) {}

StoredAnswers::~StoredAnswers() {
  Park();
  const Clock::time_point patience = Clock::now() + kParkPatience;
  while (Clock::now() < patience) {
    {
      const std::lock_guard lock(mutex_);
      if (live_.empty()) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  inbox_->Close();
  thread_.join();
}

// --- From requests to runs

StatusOr<StoredAnswers::ConversationHold> StoredAnswers::HoldConversation(const std::string& tenant,
                                                                          const std::string& id) {
  ConversationHold hold = ConversationHolds::Take(holds_, {tenant, id});
  if (hold != nullptr) return hold;
  const std::string holder = holds_->HolderOf({tenant, id});
  Status busy = InvalidArgument(
      holder.empty()
          ? fmt::format("The conversation '{}' is being changed by another request.", id)
          : fmt::format("The conversation '{}' has a turn under way, the answer '{}'.", id, holder),
      kConversation);
  busy.set_api_code("conversation_busy");
  busy.set_retry_after_seconds(1);
  return busy;
}

void StoredAnswers::NameTurn(const StoredRequest& request) const {
  // The id of an answer that is sent whole is told with its end.
  if (request.conversation.empty() || !(request.background || request.stream)) return;
  holds_->Name({request.tenant, request.conversation}, request.id);
}

std::string StoredAnswers::BasisOf(const std::string& name) const {
  for (const service::ModelInfo& model : backend_->Models()) {
    if (model.id != name || model.digest.empty()) continue;
    return model.digest + "|" + model.numerics + "|" + model.limits;
  }
  return "";
}

StoredRun::Parts StoredAnswers::PartsOf(const api::ApiRequest& api) const {
  StoredRun::Parts parts;
  parts.inbox = inbox_;
  parts.backend = backend_;
  parts.answers = answers_;
  parts.keep_tokens = api.request.logprobs.has_value();
  parts.per_prompt = static_cast<size_t>(std::max(1, api.n));
  parts.waiting = waiting_bytes_;
  return parts;
}

StatusOr<std::shared_ptr<StoredRun>> StoredAnswers::Begin(StoredRequest request,
                                                          api::ApiFormat* format,
                                                          std::vector<KeyTicket> tickets,
                                                          ConversationHold hold) {
  Status room = store_->CheckRoom(request.tenant, request.body.size() + kRecordBytes);
  if (!room.ok()) return About(room, FieldThatStores(request));
  api::ApiRequest* const api = format->request();
  request.basis = BasisOf(request.head.model);
  StoredRun::Parts parts = PartsOf(*api);
  parts.conversation = std::move(hold);
  NameTurn(request);
  const Key key{request.tenant, request.id};
  auto run = std::make_shared<StoredRun>(std::make_shared<const StoredRequest>(std::move(request)),
                                         api->choices(), std::move(parts));
  bool behind = false;  // Others of its tenant and class wait.
  {
    const std::lock_guard lock(mutex_);
    if (parked_) return Status(StatusCode::kUnavailable, "The server is stopping.");
    live_.emplace(key, run);
    behind = run->patient() && waiting_.HasWaiting(AnswerQueue::FlowOf(*run));
  }
  // What throws or fails from here on takes it back.
  bool taken = false;
  const auto take_back = [&](StoredAnswers* answers) {
    if (!taken) answers->Forget(*run);
  };
  const std::unique_ptr<StoredAnswers, decltype(take_back)> guard(this, take_back);
  std::vector<SinkRequest> all;
  std::vector<size_t> choices;
  tickets.resize(api->choices());
  for (Request& asked : ChoiceRequests(api)) {
    const size_t choice = all.size();
    all.push_back({std::move(asked), run->MakeSink(choice, {std::move(tickets[choice]), 0})});
    choices.push_back(choice);
  }
  Status submitted;
  if (behind) {
    submitted = {StatusCode::kResourceExhausted, "Too many answers in the background wait."};
    run->BeginSubmit();
    Reject(SinksOf(all), submitted);
    if (run->EndSubmit()) submitted = Status();
  } else {
    submitted = Submit(run, choices, std::move(all));
  }
  if (!submitted.ok()) return submitted;
  taken = true;
  return run;
}

Status StoredAnswers::Submit(const std::shared_ptr<StoredRun>& run,
                             const std::vector<size_t>& choices,
                             std::vector<SinkRequest> requests) {
  const std::vector<std::shared_ptr<Sink>> sinks = SinksOf(requests);
  run->BeginSubmit();
  const StatusOr<std::vector<RequestId>> ids = backend_->SubmitAll(std::move(requests));
  if (ids.ok()) {
    run->SetIds(choices, *ids);
    return {};
  }
  if (ids.status().code() == StatusCode::kResourceExhausted && run->patient()) {
    Reject(sinks, ids.status());
  }
  const bool waits = run->EndSubmit();
  const bool full = ids.status().code() == StatusCode::kResourceExhausted;
  return waits && full ? Status() : ids.status();
}

// --- What is asked of those under way, and of those that have ended

std::shared_ptr<StoredRun> StoredAnswers::Live(const std::string& tenant,
                                               const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find({tenant, id});
  if (found == live_.end() || !found->second->under_way()) return nullptr;
  return found->second;
}

StatusOr<std::string> StoredAnswers::Show(const std::string& tenant, const std::string& id) const {
  if (const std::shared_ptr<StoredRun> run = Live(tenant, id); run != nullptr && run->recorded()) {
    if (const std::shared_ptr<const std::string> body = run->body()) return *body;
    // Most answers are never polled: the first poll makes it.
    if (const std::optional<AnswerState> state = run->pending()) {
      StatusOr<std::unique_ptr<api::ApiFormat>> format = records_.Reopen(run->request());
      if (!format.ok()) return format.status();
      auto body = std::make_shared<const std::string>((*format)->Pending(*state, nullptr));
      run->SetBody(*state, body);
      return *body;
    }
  }
  StatusOr<StoredAnswer> answer = records_.Read(tenant, id);
  if (!answer.ok()) return answer.status();
  StatusOr<std::unique_ptr<api::ApiFormat>> format = records_.Reopen(*answer->request);
  if (!format.ok()) return format.status();
  return records_.Show(*answer, **format);
}

StatusOr<Items> StoredAnswers::InputItems(const std::string& tenant, const std::string& id) const {
  std::shared_ptr<const StoredRequest> request;
  if (const std::shared_ptr<StoredRun> run = Live(tenant, id)) {
    request = std::shared_ptr<const StoredRequest>(run, &run->request());
  } else {
    StatusOr<StoredAnswer> answer = records_.Read(tenant, id);
    if (!answer.ok()) return answer.status();
    request = std::move(answer->request);
  }
  StatusOr<std::unique_ptr<api::ApiFormat>> format = records_.Reopen(*request);
  if (!format.ok()) return format.status();
  const auto* items = dynamic_cast<const api::ItemFormat*>(format->get());
  if (items == nullptr) return InvalidArgument(fmt::format("'{}' has no items.", id));
  return items->InputItems();
}

StatusOr<StoredAnswers::Watched> StoredAnswers::Watch(const std::string& tenant,
                                                      const std::string& id) {
  const auto take = [&](size_t bytes, base::SharedBudget::Hold* hold) {
    return answers_ == nullptr || bytes <= http::kFreeAnswerBytes ||
           answers_->Take(tenant, static_cast<int64_t>(bytes), hold);
  };
  Watched watched;
  watched.run = Live(tenant, id);
  // A whole answer has no id that a client knows before its end.
  if (watched.run != nullptr && !watched.run->recorded()) return NoSuchAnswer(id, "");
  if (watched.run == nullptr) {
    StatusOr<StoredAnswer> answer = records_.Read(tenant, id);
    if (!answer.ok()) return answer.status();
    size_t bytes = 0;
    for (const StoredChoice& choice : answer->choices) {
      for (const Delta& piece : choice.pieces) bytes += MemoryOf(piece);
    }
    base::SharedBudget::Hold hold;
    if (!take(bytes, &hold)) return http::TooManyAnswers();
    watched.run = std::make_shared<StoredRun>(*std::move(answer), std::move(hold));
  }
  if (!take(2 * watched.run->request().body.size(), &watched.hold)) return http::TooManyAnswers();
  StatusOr<std::unique_ptr<api::ApiFormat>> format = records_.Reopen(watched.run->request());
  if (!format.ok()) return format.status();
  watched.format = *std::move(format);
  return watched;
}

Status StoredAnswers::Cancel(const std::string& tenant, const std::string& id, DoneFn done) {
  const auto foreground = [&id] {
    return InvalidArgument(
        fmt::format("The answer '{}' was not asked for with background: true; "
                    "it ends when its client closes the connection.",
                    id));
  };
  if (const std::shared_ptr<StoredRun> run = Live(tenant, id)) {
    if (!run->recorded()) return NoSuchAnswer(id, "");
    if (!run->request().background && !run->resumed()) return foreground();
    run->Cancel(std::move(done));
    const std::lock_guard lock(mutex_);
    waiting_.Remove(*run);
    return {};
  }
  const StatusOr<StoredAnswer> answer = records_.Read(tenant, id);
  if (!answer.ok()) return answer.status();
  if (answer->state == AnswerState::kQueued || answer->state == AnswerState::kInProgress) {
    return {StatusCode::kUnavailable, "The server is starting or stopping: cancel it later."};
  }
  if (!answer->request->background) return foreground();
  done({});
  return {};
}

Status StoredAnswers::Delete(const std::string& tenant, const std::string& id, DoneFn done) {
  std::shared_ptr<StoredRun> run;
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find({tenant, id});
    if (found != live_.end()) run = found->second;
    if (run != nullptr) waiting_.Remove(*run);
  }
  if (run != nullptr && !run->Drop()) return NoSuchAnswer(id, "");
  Status status = store_->Delete(Response(tenant, id), std::move(done));
  if (status.code() == StatusCode::kNotFound) return NoSuchAnswer(id, "");
  return status;
}

StatusOr<Items> StoredAnswers::History(const std::string& tenant,
                                       const api::Keeping& keeping) const {
  return records_.Before(tenant, keeping.previous, keeping.conversation, false);
}

std::shared_ptr<const std::string> StoredAnswers::Pending(const std::string& tenant,
                                                          const std::string& id) const {
  const std::shared_ptr<StoredRun> run = Live(tenant, id);
  return run == nullptr || !run->recorded() ? nullptr : run->body();
}

std::string StoredAnswers::MetricsText() const {
  size_t under_way = 0;
  {
    const std::lock_guard lock(mutex_);
    under_way = live_.size();
  }
  return metrics_.Text(store_->stats(), under_way);
}

bool StoredAnswers::Forget(const StoredRun& run) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find({run.request().tenant, run.request().id});
  if (found == live_.end() || found->second.get() != &run) return false;
  live_.erase(found);
  return true;
}

}  // namespace ropeway::server
