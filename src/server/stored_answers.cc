#include "server/stored_answers.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "http/http_reply.h"
#include "server/delta_merge.h"
#include "server/stored_record.h"
#include "server/submission.h"

namespace ropeway::server {
namespace {

using api::AnswerState;
using Clock = std::chrono::steady_clock;
using store::ObjectKind;
using store::ObjectName;

// How often answers under way are looked at for a checkpoint, and for room at the backend.
constexpr std::chrono::milliseconds kTick{250};
// The longest pause between two tries to hand an answer of an earlier process to the backend.
constexpr std::chrono::milliseconds kMostPause{5000};
// A model that the backend does not know after a restart may be that of a replica that it has not
// reached yet.
constexpr std::chrono::minutes kModelPatience{5};
// How long the end waits for the answers that it parks.
constexpr std::chrono::seconds kParkPatience{10};

// What an answer's records take beside its body, about.
constexpr uint64_t kRecordBytes = 4096;

// What decides the bits of a model's output; "": not known.
std::string BasisOf(const service::FrontDesk& backend, const std::string& name) {
  for (const service::ModelInfo& model : backend.Models()) {
    if (model.id != name || model.digest.empty()) continue;
    return model.digest + "|" + model.numerics + "|" + model.limits;
  }
  return "";
}

}  // namespace

// The conversations that are being changed.
class ConversationHolds {
 public:
  using Key = std::pair<std::string, std::string>;  // Tenant and id.

  static std::shared_ptr<void> Take(const std::shared_ptr<ConversationHolds>& holds, Key key) {
    const std::lock_guard lock(holds->mutex_);
    if (!holds->held_.insert(key).second) return nullptr;
    // Any pointer that is not null.
    return {holds.get(), [holds, key = std::move(key)](void*) {
              const std::lock_guard release(holds->mutex_);
              holds->held_.erase(key);
            }};
  }

 private:
  std::mutex mutex_;
  std::set<Key> held_;  // GUARDED_BY(mutex_)
};

std::string DrawId(std::string_view prefix) {
  base::SystemRandom random;
  return fmt::format("{}{:016x}{:016x}", prefix, random.Next64(), random.Next64());
}

StoredAnswers::StoredAnswers(StoredAnswersOptions options, store::ObjectStore* store,
                             service::FrontDesk* backend)
    : answers_(options.answers),
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
  Status busy = InvalidArgument(
      fmt::format("The conversation '{}' is being changed by another request.", id), kConversation);
  busy.set_api_code("conversation_busy");
  return busy;
}

StoredRun::Parts StoredAnswers::PartsOf(const StoredRequest& request, const api::ApiFormat& format,
                                        const Request& asked) const {
  StoredRun::Parts parts;
  parts.inbox = inbox_;
  parts.backend = backend_;
  parts.answers = answers_;
  parts.keep_tokens = asked.logprobs.has_value();
  if (!request.background && !request.stream) return parts;
  const auto body = [&](AnswerState state) {
    return std::make_shared<const std::string>(format.Pending(state, nullptr));
  };
  parts.bodies = {body(AnswerState::kQueued), body(AnswerState::kInProgress)};
  return parts;
}

StatusOr<std::shared_ptr<StoredRun>> StoredAnswers::Begin(StoredRequest request,
                                                          api::ApiFormat* format,
                                                          std::vector<KeyTicket> tickets,
                                                          ConversationHold hold) {
  Status room = store_->CheckRoom(request.tenant, request.body.size() + kRecordBytes);
  if (!room.ok()) return room;
  api::ApiRequest* const api = format->request();
  request.basis = BasisOf(*backend_, request.head.model);
  StoredRun::Parts parts = PartsOf(request, *format, api->request);
  parts.conversation = std::move(hold);
  const Key key{request.tenant, request.id};
  auto run = std::make_shared<StoredRun>(std::make_shared<const StoredRequest>(std::move(request)),
                                         api->choices(), std::move(parts));
  {
    const std::lock_guard lock(mutex_);
    if (parked_) return Status(StatusCode::kUnavailable, "The server is stopping.");
    live_.emplace(key, run);
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
  const StatusOr<std::vector<RequestId>> ids = backend_->SubmitAll(std::move(all));
  if (!ids.ok()) return ids.status();
  run->SetIds(choices, *ids);
  taken = true;
  return run;
}

// --- What is asked of those under way, and of those that have ended

std::shared_ptr<StoredRun> StoredAnswers::Live(const std::string& tenant,
                                               const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find({tenant, id});
  if (found == live_.end() || found->second->settled()) return nullptr;
  return found->second;
}

StatusOr<std::string> StoredAnswers::Show(const std::string& tenant, const std::string& id) const {
  if (const std::shared_ptr<StoredRun> run = Live(tenant, id)) {
    if (const std::shared_ptr<const std::string> body = run->body()) return *body;
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
    std::erase_if(waiting_, [&run](const Waiting& waiting) { return waiting.run == run; });
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

// --- Restarts

void StoredAnswers::Resume() {
  resume_ = true;
  ResumeWhenRead();
}

void StoredAnswers::ResumeWhenRead() {
  if (!store_->loaded() || !resume_.exchange(false)) return;
  for (const store::ObjectInfo& info : store_->Opened()) {
    if (info.name.kind != ObjectKind::kResponse || info.lost) continue;
    try {
      ResumeOne(info);
    } catch (const std::exception& e) {
      base::TryLog(spdlog::level::err, "the answer {} is not gone on with: {}", info.name.id,
                   e.what());
    }
  }
}

void StoredAnswers::ResumeOne(const store::ObjectInfo& info) {
  StatusOr<StoredAnswer> answer = records_.Read(info.name.tenant, info.name.id);
  if (!answer.ok()) {
    base::TryLog(spdlog::level::err, "the answer {} is not gone on with: {}", info.name.id,
                 answer.status().message());
    return;
  }
  const StoredRequest& request = *answer->request;
  StatusOr<std::unique_ptr<api::ApiFormat>> format = records_.Reopen(request);
  StoredRun::Parts parts;
  parts.inbox = inbox_;
  parts.backend = backend_;
  size_t choices = 1;
  if (format.ok()) {
    const api::ApiRequest& api = *(*format)->request();
    parts = PartsOf(request, **format, api.request);
    choices = api.choices();
  }
  parts.recorded = true;
  if (!request.conversation.empty()) {
    parts.conversation = ConversationHolds::Take(holds_, {request.tenant, request.conversation});
  }
  const bool has_turn = request.conversation.empty() || parts.conversation != nullptr;
  auto run = std::make_shared<StoredRun>(answer->request, choices, std::move(parts));
  const std::lock_guard lock(mutex_);
  live_.emplace(Key{request.tenant, request.id}, run);
  Waiting& waiting = waiting_.emplace_back();
  waiting.run = std::move(run);
  waiting.choices = std::move(answer->choices);
  waiting.needs_turn = !has_turn;
}

void StoredAnswers::SubmitWaiting() {
  std::deque<Waiting> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (parked_) return;
    waiting.swap(waiting_);
  }
  bool busy = false;
  std::erase_if(waiting, [&](Waiting& one) {
    if (busy || Clock::now() < one.next) return false;
    const bool over = SubmitOne(&one);
    busy = !over;  // What comes behind it waits for its turn.
    return over;
  });
  const std::lock_guard lock(mutex_);
  for (Waiting& one : waiting) {
    if (parked_) {
      live_.erase({one.run->request().tenant, one.run->request().id});
    } else {
      waiting_.push_back(std::move(one));
    }
  }
}

bool StoredAnswers::SubmitOne(Waiting* waiting) {
  Status status;
  try {
    status = HandOver(waiting);
  } catch (const std::exception&) {
    status = {StatusCode::kResourceExhausted, "out of memory"};
  }
  if (status.ok()) return true;
  const bool busy =
      status.code() == StatusCode::kResourceExhausted || status.code() == StatusCode::kUnavailable;
  const bool unknown = status.code() == StatusCode::kNotFound && status.field() == "model" &&
                       Clock::now() - waiting->since < kModelPatience;
  if (busy || unknown) {
    waiting->pause = std::clamp(2 * waiting->pause, kTick, kMostPause);
    waiting->next = Clock::now() + waiting->pause;
    return false;
  }
  waiting->run->Fail(status);
  return true;
}

Status StoredAnswers::Prepare(Waiting* waiting) const {
  StoredRun& run = *waiting->run;
  const StoredRequest& request = run.request();
  StatusOr<std::unique_ptr<api::ApiFormat>> format = records_.Reopen(request);
  if (!format.ok()) return format.status();
  StatusOr<Items> before =
      records_.Before(request.tenant, request.previous, request.conversation, true);
  if (!before.ok()) return before.status();
  if (!before->empty()) {
    auto* items = dynamic_cast<api::ItemFormat*>(format->get());
    Status continued = items == nullptr ? Status() : items->Continue(*before);
    if (!continued.ok()) return continued;
  }
  api::ApiRequest* const api = (*format)->request();
  Request& asked = api->request;
  asked.model = request.head.model;
  asked.tenant = request.tenant;
  asked.cache_scope = request.cache_scope;
  asked.priority = request.head.priority;
  asked.tenant_weight = request.weight;
  asked.sampling.seed = request.seed;
  // An engine whose bits may differ begins anew.
  const bool resumes = !request.basis.empty() && backend_->CanResume() &&
                       request.basis == BasisOf(*backend_, request.head.model) &&
                       !asked.prompt_logprobs;
  std::vector<Request> requests = ChoiceRequests(api);
  if (resumes) run.Prime(std::move(waiting->choices));
  waiting->choices.clear();
  waiting->unfinished = run.Unfinished();
  for (const size_t choice : waiting->unfinished) {
    Request& one = waiting->requests.emplace_back(std::move(requests[choice]));
    if (resumes) one.resume_ids = run.ids(choice);
  }
  return {};
}

Status StoredAnswers::HandOver(Waiting* waiting) {
  StoredRun& run = *waiting->run;
  const StoredRequest& request = run.request();
  if (waiting->needs_turn) {
    StatusOr<ConversationHold> hold = HoldConversation(request.tenant, request.conversation);
    if (!hold.ok()) return {StatusCode::kUnavailable, hold.status().message()};
    run.SetConversation(*std::move(hold));
    waiting->needs_turn = false;
  }
  if (waiting->requests.empty()) {
    Status status = Prepare(waiting);
    if (!status.ok()) return status;
  }
  std::vector<SinkRequest> all;
  for (size_t i = 0; i < waiting->requests.size(); ++i) {
    all.push_back({waiting->requests[i], run.MakeSink(waiting->unfinished[i], {})});
  }
  if (all.empty()) {
    inbox_->Add(waiting->run);  // It had ended.
    return {};
  }
  const StatusOr<std::vector<RequestId>> ids = backend_->SubmitAll(std::move(all));
  if (!ids.ok()) return ids.status();
  run.SetIds(waiting->unfinished, *ids);
  return {};
}

void StoredAnswers::Park() {
  std::vector<std::shared_ptr<StoredRun>> runs;
  {
    const std::lock_guard lock(mutex_);
    parked_ = true;
    for (const Waiting& waiting : waiting_)
      live_.erase({waiting.run->request().tenant, waiting.run->request().id});
    waiting_.clear();
    for (const auto& [key, run] : live_) runs.push_back(run);
  }
  for (const std::shared_ptr<StoredRun>& run : runs) run->Park();
}

// --- The thread that writes records

void StoredAnswers::Loop() {
  Clock::time_point tick = Clock::now();
  while (!inbox_->closed()) {
    std::vector<std::shared_ptr<StoredRun>> runs = inbox_->Take(tick + kTick);
    if (Clock::now() >= tick + kTick) {
      tick = Clock::now();
      try {
        ResumeWhenRead();
        SubmitWaiting();
        const std::lock_guard lock(mutex_);
        for (const auto& [key, run] : live_) runs.push_back(run);
      } catch (const std::exception& e) {
        base::TryLog(spdlog::level::err, "stored answers are looked at again later: {}", e.what());
      }
    }
    for (const std::shared_ptr<StoredRun>& run : runs) Save(run);
  }
}

void StoredAnswers::Save(const std::shared_ptr<StoredRun>& run) {
  StoredRun::Write write = StoredRun::Write::kNothing;
  try {
    TrySave(run, &write);
  } catch (const std::exception& e) {
    base::TryLog(spdlog::level::err, "the answer {} is written later: {}", run->request().id,
                 e.what());
    if (write != StoredRun::Write::kNothing) run->Retry();
  }
}

void StoredAnswers::TrySave(const std::shared_ptr<StoredRun>& run, StoredRun::Write* due) {
  using Write = StoredRun::Write;
  const Write write = *due = run->Due(Clock::now());
  if (write == Write::kNothing) {
    if (run->settled()) Forget(*run);
    Waiting waiting;
    if (run->TakeLost(&waiting.choices)) {
      waiting.run = run;
      waiting.next = Clock::now() + kTick;
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(waiting));
    }
    return;
  }
  const StoredRequest& request = run->request();
  std::vector<store::ObjectChange> changes(1);
  changes.front().name = Response(request.tenant, request.id);
  changes.front().open = write != Write::kFinal;
  if (!run->recorded()) {
    changes.front().fixed = PackRequest(request);
    changes.front().parent = request.previous;
  }
  AnswerState state = AnswerState::kQueued;
  changes.front().state = run->Pack(write, &state);
  std::optional<store::ObjectChange> without;
  Status status;
  if (write == Write::kFinal && !request.conversation.empty() && HasOutput(state)) {
    StatusOr<AnswerRecords::TurnChange> turn = records_.Turn(request, run->Collected(0));
    status = turn.status();
    if (turn.ok()) {
      changes.push_back(std::move(turn->with));
      // The store drops what is new where it cannot write, but keeps changes of what it had.
      if (!run->recorded()) without = std::move(turn->without);
    }
  }
  const auto done = [run, write, store = store_, without](const Status& written) {
    try {
      if (!written.ok() && without) static_cast<void>(store->Write({*without}, nullptr));
      run->Written(write, written);
    } catch (const std::exception&) {
      run->Retry();
    }
  };
  if (status.ok()) status = store_->Write(changes, done);
  if (status.ok()) return;
  // What it goes on from is not there any more.
  if (status.code() == StatusCode::kNotFound && status.field().empty()) {
    status = {status.code(), status.message(),
              request.conversation.empty() ? kPrevious : kConversation};
  }
  if (!run->recorded() || changes.size() == 1) {
    run->Written(write, status);
    return;
  }
  // The answer of a turn that its conversation does not take has failed.
  run->Fail(status);
  changes.resize(1);
  changes.front().state = run->Pack(write, &state);
  status = store_->Write(std::move(changes), done);
  if (!status.ok()) run->Written(write, status);
}

void StoredAnswers::Forget(const StoredRun& run) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find({run.request().tenant, run.request().id});
  if (found != live_.end() && found->second.get() == &run) live_.erase(found);
}

}  // namespace ropeway::server
