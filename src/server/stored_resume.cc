// StoredAnswers: how answers go on after a restart, and the thread that writes records.
#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "base/utf8.h"
#include "server/stored_answers.h"
#include "server/stored_record.h"
#include "server/submission.h"

namespace ropeway::server {
namespace {

using api::AnswerState;
using Clock = std::chrono::steady_clock;

// How often answers under way are looked at for a checkpoint, and for room at the backend.
constexpr std::chrono::milliseconds kTick = AnswerQueue::kTick;
// A model that the backend does not know after a restart may be that of a replica that it has not
// reached yet.
constexpr std::chrono::minutes kModelPatience{5};

// " key=" and the name of the key, in lines of the log.
std::string KeyText(const StoredRequest& request) {
  return request.tenant.empty() ? "" : " key=" + request.tenant;
}

// Of an answer that no request's line tells of. Neither what was asked nor what was said.
void LogEnd(const StoredRun& run) {
  constexpr size_t kMostErrorBytes = 256;
  const StoredRequest& request = run.request();
  if (!request.background && !run.resumed()) return;
  const StoredRun::Report report = run.report();
  std::string error;
  if (!report.error.empty()) {
    error =
        fmt::format(" error=\"{}\"", base::PrintableText(report.error.substr(0, kMostErrorBytes)));
  }
  base::TryLog(spdlog::level::info,
               "answer id={}{} state={} tokens_in={} tokens_out={} total_ms={:.1f}{}", request.id,
               KeyText(request), report.state, report.prompt_tokens, report.generated,
               report.total.count(), error);
}

}  // namespace

// --- Restarts

void StoredAnswers::Resume() {
  resume_ = true;
  ResumeWhenRead();
}

void StoredAnswers::ResumeWhenRead() {
  if (!store_->loaded() || !resume_.exchange(false)) return;
  size_t count = 0;
  for (const store::ObjectInfo& info : store_->Opened()) {
    if (info.name.kind != store::ObjectKind::kResponse || info.lost) continue;
    try {
      ResumeOne(info);
      ++count;
    } catch (const std::exception& e) {
      base::TryLog(spdlog::level::err, "the answer {} is not gone on with: {}", info.name.id,
                   e.what());
    }
  }
  if (count > 0) {
    base::TryLog(spdlog::level::info, "stored answers that were under way and go on: {}", count);
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
    parts = PartsOf(api);
    choices = api.choices();
  }
  parts.recorded = true;
  if (!request.conversation.empty()) {
    StatusOr<ConversationHold> hold = HoldConversation(request.tenant, request.conversation);
    if (hold.ok()) {
      parts.conversation = *std::move(hold);
      NameTurn(request);
    }
  }
  const bool has_turn = request.conversation.empty() || parts.conversation != nullptr;
  auto run = std::make_shared<StoredRun>(answer->request, choices, std::move(parts));
  const std::lock_guard lock(mutex_);
  live_.emplace(Key{request.tenant, request.id}, run);
  WaitingAnswer waiting;
  waiting.run = std::move(run);
  waiting.choices = std::move(answer->choices);
  waiting.needs_turn = !has_turn;
  waiting_.Add(std::move(waiting));
}

void StoredAnswers::SubmitWaiting() {
  std::vector<WaitingAnswer> due;
  {
    const std::lock_guard lock(mutex_);
    if (parked_) return;
    due = waiting_.TakeDue(Clock::now());
  }
  for (WaitingAnswer& waiting : due) {
    if (SubmitOne(&waiting)) continue;
    const std::lock_guard lock(mutex_);
    PutBack(std::move(waiting));
  }
}

void StoredAnswers::PutBack(WaitingAnswer waiting) {
  if (parked_) {
    live_.erase({waiting.run->request().tenant, waiting.run->request().id});
  } else {
    waiting_.Add(std::move(waiting));
  }
}

bool StoredAnswers::SubmitOne(WaitingAnswer* waiting) {
  if (!waiting->run->wanted()) return true;  // It was cancelled or deleted meanwhile.
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
    waiting->pause = std::clamp(2 * waiting->pause, kTick, AnswerQueue::kMostPause);
    waiting->next = Clock::now() + waiting->pause;
    return false;
  }
  waiting->run->Fail(status);
  return true;
}

Status StoredAnswers::Prepare(WaitingAnswer* waiting) const {
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
  asked.sampling.given |= SamplingParams::kSeed;
  // An engine whose bits may differ begins anew.
  const bool resumes = !request.basis.empty() && backend_->CanResume() &&
                       request.basis == BasisOf(request.head.model) && !asked.prompt_logprobs;
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

Status StoredAnswers::HandOver(WaitingAnswer* waiting) {
  StoredRun& run = *waiting->run;
  const StoredRequest& request = run.request();
  if (waiting->needs_turn) {
    StatusOr<ConversationHold> hold = HoldConversation(request.tenant, request.conversation);
    if (!hold.ok()) return {StatusCode::kUnavailable, hold.status().message()};
    run.SetConversation(*std::move(hold));
    NameTurn(request);
    waiting->needs_turn = false;
  }
  if (waiting->requests.empty()) {
    Status status = Prepare(waiting);
    if (!status.ok()) return status;
  }
  std::vector<SinkRequest> all;
  for (size_t i = 0; i < waiting->requests.size(); ++i) {
    const size_t choice = waiting->unfinished[i];
    Request request_now = waiting->requests[i];
    if (std::optional<std::chrono::milliseconds>& timeout = request_now.timeout; timeout) {
      *timeout -= std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - run.made());
      if (timeout->count() <= 0) return base::RequestTimeout();
    }
    all.push_back({std::move(request_now), run.MakeSink(choice, run.TakeCharge(choice))});
  }
  if (all.empty()) {
    inbox_->Add(waiting->run);  // It had ended.
    return {};
  }
  const Status status = Submit(waiting->run, waiting->unfinished, std::move(all));
  if (status.ok() && !run.waits()) {
    base::TryLog(spdlog::level::info, "answer id={}{} goes on behind {} tokens", request.id,
                 KeyText(request), run.report().generated);
  }
  return status;
}

void StoredAnswers::Park() {
  std::vector<std::shared_ptr<StoredRun>> runs;
  {
    const std::lock_guard lock(mutex_);
    parked_ = true;
    for (WaitingAnswer& waiting : waiting_.TakeAll()) PutBack(std::move(waiting));
    for (const auto& [key, run] : live_) runs.push_back(run);
  }
  for (const std::shared_ptr<StoredRun>& run : runs) run->Park();
}

// --- The thread that writes records

void StoredAnswers::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-stored");
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
    if (run->settled() && Forget(*run)) LogEnd(*run);
    WaitingAnswer waiting;
    if (run->TakeLost(&waiting.choices)) {
      waiting.run = run;
      waiting.next = Clock::now() + kTick;
      inbox_->Add(run);  // Its first record may be due.
      const std::lock_guard lock(mutex_);
      PutBack(std::move(waiting));
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
      run->Written(write, About(written, FieldThatStores(run->request())));
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
  } else if (status.field().empty()) {
    status = About(status, FieldThatStores(request));
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

}  // namespace ropeway::server
