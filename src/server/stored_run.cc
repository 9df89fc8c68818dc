#include "server/stored_run.h"

#include <algorithm>
#include <utility>

#include "http/http_reply.h"
#include "server/answer_records.h"
#include "server/delta_merge.h"
#include "server/stored_record.h"

namespace ropeway::server {
namespace {

// An answer in the background whose backend is gone waits for another one for so long.
constexpr std::chrono::minutes kBackendPatience{10};

}  // namespace

// --- StoredRun: the backend's side

// Passes what becomes of one choice to the run.
class StoredRun::RecordingSink final : public Sink {
 public:
  RecordingSink(std::shared_ptr<StoredRun> run, size_t choice, ChoiceCharge charge)
      : run_(std::move(run)), choice_(choice), charge_(std::move(charge)) {}

  // As with ServerSink the key's account is updated first.

  // Once the backend has dropped it uncalled.
  ChoiceCharge TakeCharge() { return std::exchange(charge_, ChoiceCharge()); }

  void OnAdmitted(RequestId, const Admission& admission) override {
    run_->OnAdmitted(choice_, admission, charge_.Admitted(admission));
  }
  bool OnDelta(RequestId, Delta delta) override {
    const bool within = charge_.Generated(static_cast<int64_t>(delta.tokens.size()));
    try {
      return run_->OnDelta(choice_, std::move(delta)) && within;
    } catch (const std::exception&) {
      run_->Fail(http::StatusFromException());
      return false;
    }
  }
  void OnEnd(RequestId, const Outcome& outcome) override {
    if (run_->WaitsForRoom(choice_, outcome.status, &charge_)) return;
    run_->OnEnd(choice_, charge_.Ended(outcome));
  }

 private:
  const std::shared_ptr<StoredRun> run_;
  const size_t choice_;
  ChoiceCharge charge_;
};

StoredRun::StoredRun(std::shared_ptr<const StoredRequest> request, size_t choices, Parts parts)
    : request_(std::move(request)),
      parts_(std::move(parts)),
      choices_(choices),
      waits_(parts_.recorded),
      recorded_(parts_.recorded),
      bytes_(request_->body.size()) {}

StoredRun::StoredRun(StoredAnswer answer, base::SharedBudget::Hold hold)
    : request_(std::move(answer.request)),
      choices_(std::max<size_t>(1, answer.choices.size())),
      error_(std::move(answer.error)),
      cancelled_(answer.state == api::AnswerState::kCancelled),
      waits_(false),
      recorded_(true),
      settled_(true),
      held_(std::move(hold)) {
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    Choice& choice = choices_[i];
    SetKept(std::move(answer.choices[i]), &choice);
    choice.admitted = choice.ended = true;
    if (choice.finish) choice.facts = FactsOf(*choice.finish);
  }
}

void StoredRun::SetKept(StoredChoice kept, Choice* choice) {
  choice->pieces = PieceLog(std::move(kept.pieces));
  choice->ids = std::move(kept.ids);
  choice->finish = kept.finish;
}

void StoredRun::Prime(std::vector<StoredChoice> choices) {
  const std::lock_guard lock(mutex_);
  bytes_ = request_->body.size();
  for (size_t i = 0; i < choices_.size() && i < choices.size(); ++i) {
    Choice& choice = choices_[i];
    for (const Delta& piece : choices[i].pieces) bytes_ += MemoryOf(piece);
    SetKept(std::move(choices[i]), &choice);
    choice.with_ids = choice.pieces.size();
    choice.admitted = choice.ended = choice.finish.has_value();
    news_ = news_ || choice.ended;
  }
}

std::vector<size_t> StoredRun::Unfinished() const {
  const std::lock_guard lock(mutex_);
  std::vector<size_t> unfinished;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (!choices_[i].ended) unfinished.push_back(i);
  }
  return unfinished;
}

std::vector<TokenId> StoredRun::ids(size_t choice) const {
  const std::lock_guard lock(mutex_);
  return choices_[choice].ids;
}

std::shared_ptr<Sink> StoredRun::MakeSink(size_t choice, ChoiceCharge charge) {
  auto sink = std::make_shared<RecordingSink>(shared_from_this(), choice, std::move(charge));
  const std::lock_guard lock(mutex_);
  choices_[choice].sink = sink;
  return sink;
}

ChoiceCharge StoredRun::TakeCharge(size_t choice) {
  const std::lock_guard lock(mutex_);
  std::optional<ChoiceCharge> charge;
  charge.swap(choices_[choice].charge);
  return charge ? *std::move(charge) : ChoiceCharge();
}

void StoredRun::BeginSubmit() {
  const std::lock_guard lock(mutex_);
  submitting_ = true;
}

bool StoredRun::EndSubmit() {
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    submitting_ = false;
    for (Choice& choice : choices_) {
      const std::shared_ptr<RecordingSink> sink = choice.sink.lock();
      if (sink != nullptr && !choice.charge) choice.charge.emplace(sink->TakeCharge());
    }
    waits = waits_ || lost_;
  }
  parts_.inbox->Add(shared_from_this());
  return waits;
}

bool StoredRun::wanted() const {
  const std::lock_guard lock(mutex_);
  return !settled_ && !stopped();
}

bool StoredRun::WaitsForRoom(size_t index, const Status& status, ChoiceCharge* charge) {
  std::vector<RequestId> running;
  {
    const std::lock_guard lock(mutex_);
    Choice& choice = choices_[index];
    const bool full = status.code() == StatusCode::kResourceExhausted;
    const auto now = std::chrono::steady_clock::now();
    if (choice.taken || !(full || MayGoOnElsewhere(status, now))) return false;
    if (settled_ || stopped() || parked_ || !patient()) return false;
    const auto bytes = static_cast<int64_t>(request_->body.size());
    if (parts_.waiting != nullptr && !waiting_.taken() && !resumed() &&
        !parts_.waiting->Take(request_->tenant, bytes, &waiting_)) {
      return false;
    }
    choice.charge.emplace(std::move(*charge));
    choice.ended = true;
    choice.id = 0;
    lost_ = true;
    if (!full && !lost_since_) lost_since_ = now;
    record_now_ = true;  // Its client is told that it is queued.
    running = Running();
  }
  CancelAll(running);
  parts_.inbox->Add(shared_from_this());
  return true;
}

bool StoredRun::waits() const {
  const std::lock_guard lock(mutex_);
  return waits_ || lost_;
}

bool StoredRun::undecided() const {
  const std::lock_guard lock(mutex_);
  if (settled_ || waits_ || lost_) return false;
  return std::ranges::any_of(choices_,
                             [](const Choice& choice) { return !choice.ended && !choice.taken; });
}

void StoredRun::SetIds(const std::vector<size_t>& choices, const std::vector<RequestId>& ids) {
  std::vector<RequestId> running;
  {
    const std::lock_guard lock(mutex_);
    submitting_ = false;
    if (!lost_) waits_ = false;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (!choices_[choices[i]].ended) choices_[choices[i]].id = ids[i];
    }
    if (stopped()) running = Running();
  }
  CancelAll(running);
  if (waits()) parts_.inbox->Add(shared_from_this());
}

void StoredRun::Fail(Status status) {
  std::vector<RequestId> running;
  {
    const std::lock_guard lock(mutex_);
    if (settled_) return;
    if (!stopped()) failure_ = std::move(status);
    running = Running();
    if (running.empty()) {
      for (Choice& choice : choices_) choice.ended = true;
    }
  }
  CancelAll(running);
  parts_.inbox->Add(shared_from_this());
}

void StoredRun::OnAdmitted(size_t choice, const Admission& admission, Status within) {
  std::vector<RequestId> running;
  bool all = false;
  {
    const std::lock_guard lock(mutex_);
    choices_[choice].admitted = choices_[choice].taken = true;
    choices_[choice].facts.admitted = true;
    choices_[choice].facts.prompt_tokens = admission.prompt_tokens;
    if (choice == 0) queue_position_ = admission.queue_position;
    all = AllAdmitted() && !recorded_ && records_first();
    if (!within.ok() && !stopped()) {
      failure_ = std::move(within);
      running = Running();
    }
    Wake();
  }
  CancelAll(running);
  if (all) parts_.inbox->Add(shared_from_this());
}

bool StoredRun::OnDelta(size_t index, Delta delta) {
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopped() || settled_) return false;
    Choice& choice = choices_[index];
    const auto tokens = static_cast<int64_t>(delta.tokens.size());
    choice.admitted = choice.taken = true;
    choice.facts.admitted = true;
    choice.facts.generated += tokens;
    if (tokens > 0 && !choice.facts.first) {
      choice.facts.first = std::chrono::steady_clock::now() - made_;
    }
    Keep(std::move(delta), &choice);
    lost_since_.reset();
    news_ = true;
    unsaved_ += tokens;
    if (!Charge(MemoryOf(choice.pieces.last()))) {
      failure_ = http::TooManyAnswers();
      return false;
    }
    due = recorded_ && !writing_ && unsaved_ >= kCheckpointTokens;
    Wake();
  }
  if (due) parts_.inbox->Add(shared_from_this());
  return true;
}

void StoredRun::Keep(Delta delta, Choice* choice) {
  for (const OutputToken& token : delta.tokens) {
    choice->ids_known = choice->ids_known && token.id >= 0;
    if (choice->ids_known) choice->ids.push_back(token.id);
  }
  const bool has_tokens = !delta.tokens.empty();
  if (!parts_.keep_tokens) delta.tokens.clear();
  delta.batch_num = 0;  // A matter of timing.
  choice->pieces.Add(std::move(delta));
  // What comes without a token, at the end, comes again where the answer goes on from its ids.
  if (has_tokens) choice->with_ids = choice->pieces.size();
}

bool StoredRun::Charge(size_t bytes) {
  bytes_ += bytes;
  if (parts_.answers == nullptr || bytes_ <= http::kFreeAnswerBytes) return true;
  const auto all = static_cast<int64_t>(bytes_);
  if (!held_.taken()) return parts_.answers->Take(request_->tenant, all, &held_);
  return all <= held_.amount() || held_.Grow(all - held_.amount());
}

void StoredRun::OnEnd(size_t index, Outcome end) {
  const TimePoint now = std::chrono::steady_clock::now();
  std::vector<RequestId> running;
  {
    const std::lock_guard lock(mutex_);
    if (settled_) return;
    Choice& choice = choices_[index];
    choice.ended = true;
    choice.id = 0;
    const bool cancelled = end.finish.reason == FinishReason::kCancelled;
    if (parked_ && (cancelled || !end.status.ok())) {
      interrupted_ = true;
    } else if (lost_ && (cancelled || !end.status.ok())) {
      // The others of a lost choice.
    } else if (MayGoOnElsewhere(end.status, now)) {
      if (!lost_since_) lost_since_ = now;
      lost_ = true;
      running = Running();
    } else if (!end.status.ok() || end.finish.reason == FinishReason::kFailed) {
      if (!stopped()) {
        failure_ = end.status.ok() ? Status(StatusCode::kInternal, "The request failed.")
                                   : AboutHistory(std::move(end.status), request_->previous,
                                                  request_->conversation);
      }
      running = Running();
    } else {
      choice.admitted = true;
      choice.facts = FactsOf(end.finish);
      choice.finish = end.finish;
      news_ = true;
    }
  }
  CancelAll(running);
  parts_.inbox->Add(shared_from_this());
}

bool StoredRun::MayGoOnElsewhere(const Status& status, TimePoint now) const {
  if (status.code() != StatusCode::kUnavailable || !recorded_ || !request_->background) {
    return false;
  }
  if (stopped() || parked_) return false;
  return !lost_since_ || now - *lost_since_ < kBackendPatience;
}

bool StoredRun::AllAdmitted() const {
  return std::ranges::all_of(choices_, [](const Choice& choice) { return choice.admitted; });
}

bool StoredRun::AllEnded() const {
  return std::ranges::all_of(choices_, [](const Choice& choice) { return choice.ended; });
}

std::vector<RequestId> StoredRun::Running() const {
  std::vector<RequestId> running;
  for (const Choice& choice : choices_) {
    if (!choice.ended && choice.id != 0) running.push_back(choice.id);
  }
  return running;
}

void StoredRun::CancelAll(const std::vector<RequestId>& ids) const {
  for (const RequestId id : ids) static_cast<void>(parts_.backend->Cancel(id));
}

// --- StoredRun: what clients ask

void StoredRun::Cancel(DoneFn done) {
  std::vector<RequestId> running;
  {
    std::unique_lock lock(mutex_);
    if (settled_) {
      lock.unlock();
      done({});
      return;
    }
    settled_fns_.push_back(std::move(done));
    if (!AllEnded() && failure_.ok() && !dropped_) cancelled_ = true;
    running = Running();
    if (running.empty() && (waits_ || lost_) && cancelled_) {
      for (Choice& choice : choices_) choice.ended = true;
    }
  }
  CancelAll(running);
  parts_.inbox->Add(shared_from_this());
}

void StoredRun::Leave() {
  if (request_->background) return;
  std::vector<RequestId> running;
  {
    const std::lock_guard lock(mutex_);
    if (settled_ || AllEnded()) return;
    // Of a server that stops the client may ask again after the next start.
    if (!parked_ && failure_.ok() && !dropped_) cancelled_ = true;
    running = Running();
  }
  CancelAll(running);
}

bool StoredRun::Drop() {
  std::vector<RequestId> running;
  bool may_be_stored = false;
  {
    const std::lock_guard lock(mutex_);
    dropped_ = true;
    may_be_stored = recorded_ || writing_;
    running = Running();
  }
  CancelAll(running);
  parts_.inbox->Add(shared_from_this());
  return may_be_stored;
}

void StoredRun::Park() {
  std::vector<RequestId> running;
  {
    const std::lock_guard lock(mutex_);
    if (settled_ || !records_first() || stopped()) return;
    parked_ = true;
    if (lost_) interrupted_ = true;
    // A client that reads it may do so to the end of the grace that the server gives.
    if (request_->background) running = Running();
  }
  CancelAll(running);
  parts_.inbox->Add(shared_from_this());
}

void StoredRun::RecordNow() {
  {
    const std::lock_guard lock(mutex_);
    record_now_ = true;
  }
  parts_.inbox->Add(shared_from_this());
}

std::optional<api::AnswerState> StoredRun::pending() const {
  const std::lock_guard lock(mutex_);
  return PendingState();
}

std::optional<api::AnswerState> StoredRun::PendingState() const {
  if (settled_) return std::nullopt;
  // Its end is shown once it is in the store.
  return State() == api::AnswerState::kQueued ? api::AnswerState::kQueued
                                              : api::AnswerState::kInProgress;
}

std::shared_ptr<const std::string> StoredRun::body() const {
  const std::lock_guard lock(mutex_);
  const std::optional<api::AnswerState> state = PendingState();
  if (!state) return nullptr;
  return *state == api::AnswerState::kQueued ? queued_body_ : in_progress_body_;
}

void StoredRun::SetBody(api::AnswerState pending, std::shared_ptr<const std::string> body) {
  const std::lock_guard lock(mutex_);
  (pending == api::AnswerState::kQueued ? queued_body_ : in_progress_body_).swap(body);
}

bool StoredRun::settled() const {
  const std::lock_guard lock(mutex_);
  return settled_;
}

bool StoredRun::under_way() const {
  const std::lock_guard lock(mutex_);
  return !settled_ && !dropped_;
}

void StoredRun::SetConversation(std::shared_ptr<void> hold) {
  const std::lock_guard lock(mutex_);
  parts_.conversation = std::move(hold);
}

bool StoredRun::recorded() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

}  // namespace ropeway::server
